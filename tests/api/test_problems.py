"""Every error is a problem document, and says nothing it should not (service.md 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from app.api.app import build_app
from app.errors import StoreUnavailable
from tests.support.api.world import Person, pointers, problem

if TYPE_CHECKING:
    from app.service.runs.use_cases import Runs
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(frozen=True)
class Case:
    id: str
    method: str
    path: str
    status: int
    code: str
    headers: tuple[tuple[str, str], ...] = ()


CASES = [
    Case("no such path", "GET", "/v1/nothing", 404, "not_found"),
    Case("no such path at all", "GET", "/", 404, "not_found"),
    Case("a slash too many", "GET", "/v1/runs/", 404, "not_found"),
    Case("another method", "DELETE", "/v1/runs", 405, "method_not_allowed"),
    Case("a method nobody has", "BREW", "/v1/runs", 405, "method_not_allowed"),
    Case("no such run", "GET", "/v1/runs/run_0", 404, "not_found"),
    Case("a run with U+0000", "GET", "/v1/runs/run_%00", 404, "not_found"),
    Case("an agent's name with U+0000", "GET", "/v1/agents/a%00", 404, "not_found"),
    Case("HTML wanted", "GET", "/v1/runs", 406, "not_acceptable", (("accept", "text/html"),)),
    Case(
        "JSON refused",
        "GET",
        "/v1/runs",
        406,
        "not_acceptable",
        (("accept", "application/json;q=0, text/html"),),
    ),
    Case("all refused", "GET", "/v1/runs", 406, "not_acceptable", (("accept", "*/*;q=0"),)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_what_is_not_there_is_told_as_a_problem(world: ApiWorld, case: Case) -> None:
    answer = await world.person().ask(case.method, case.path, **dict(case.headers))
    problem(answer, case.status, case.code)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/*",
        "text/html, application/json;q=0.1",
        "a/b, */*",
    ],
)
async def test_json_is_given_to_whoever_takes_it(world: ApiWorld, accept: str) -> None:
    assert (await world.person().get("/v1/runs", accept=accept)).status_code == 200


async def test_another_method_names_those_that_there_are(world: ApiWorld) -> None:
    answer = await world.person().delete("/v1/runs/run_1")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/agents/helper", "DELETE, GET, PUT"),
        ("/v1/runs", "GET, POST"),
        # It could be the id of an approval as well; what is spelled out is meant.
        ("/v1/approvals/batch", "POST"),
    ],
)
async def test_all_the_methods_of_a_path_are_named(
    world: ApiWorld, path: str, methods: str
) -> None:
    answer = await world.person().ask("OPTIONS", path)
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == methods


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=201", "/query/limit"),
        ("limit=x", "/query/limit"),
        ("limit=1_0", "/query/limit"),
        ("limit=%201", "/query/limit"),
        ("limit=1.0", "/query/limit"),
        ("limit=1&limit=2", "/query/limit"),
        ("cursor=rubbish", "/query/cursor"),
        ("cursor=MTo", "/query/cursor"),
        ("surprise=1", "/query/surprise"),
        ("status=lost", "/query/status"),
        ("agent=%00", "/query/agent"),
    ],
)
async def test_a_parameter_that_does_not_hold_is_named(
    world: ApiWorld, query: str, pointer: str
) -> None:
    answer = await world.person().get(f"/v1/runs?{query}")
    assert pointers(problem(answer, 422, "request.invalid")) == [pointer]


class Failing:
    """Stands for a use case that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def read(self, *_: Any) -> None:
        raise self._error


async def failing(world: ApiWorld, error: Exception) -> httpx.Response:
    edge = replace(world.edge, runs=cast("Runs", Failing(error)))
    edge = replace(edge, registry=type(edge.registry)())
    transport = httpx.ASGITransport(build_app(edge))
    async with httpx.AsyncClient(transport=transport, base_url="http://turngate.test") as http:
        told = replace(world, http=http)
        return await Person(told, world.tenant, "alice", world.person().token).get("/v1/runs/r")


async def test_what_nobody_expected_is_told_without_a_word_of_it(world: ApiWorld) -> None:
    answer = await failing(world, RuntimeError("the secret of the house"))
    problem(answer, 500, "internal")
    assert "secret" not in answer.text


async def test_an_absent_database_is_unavailable_for_a_while(world: ApiWorld) -> None:
    answer = await failing(world, StoreUnavailable("no connection"))
    problem(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("sent", ["abc-1", "01HX:trace/span"])
async def test_a_sound_request_id_is_kept(world: ApiWorld, sent: str) -> None:
    answer = await world.http.get("/healthz", headers={"X-Request-Id": sent})
    assert answer.headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "<script>"])
async def test_an_unsound_request_id_is_replaced(world: ApiWorld, sent: str) -> None:
    answer = await world.http.get("/healthz", headers={"X-Request-Id": sent})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_an_allowed_origin_gets_cors_headers(world: ApiWorld) -> None:
    origin = {"Origin": "https://app.example"}
    answer = await world.http.get("/healthz", headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-credentials" not in answer.headers
    asked = {"Access-Control-Request-Method": "POST"}
    preflight = await world.http.options("/v1/runs", headers=origin | asked)
    assert preflight.status_code == 204
    assert "Idempotency-Key" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["x-request-id"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.evil"])
async def test_another_origin_gets_none(world: ApiWorld, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for answer in (
        await world.http.get("/healthz", headers={"Origin": origin}),
        await world.http.options("/v1/runs", headers=asked),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_without_allowed_origins_nothing_is_looked_at(world: ApiWorld) -> None:
    edge = replace(world.edge, registry=type(world.edge.registry)(), allowed_origins=frozenset())
    transport = httpx.ASGITransport(build_app(edge))
    async with httpx.AsyncClient(transport=transport, base_url="http://turngate.test") as http:
        answer = await http.get("/healthz", headers={"Origin": "https://app.example"})
    assert "vary" not in answer.headers
