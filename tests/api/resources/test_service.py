"""What the service tells of itself (service.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tests.api.test_description import COMMITTED
from tests.support.api.world import problem
from tests.support.log.seals import SERVICE

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_health_and_readiness_need_no_token(world: ApiWorld) -> None:
    assert (await world.http.get("/healthz")).json() == {"status": "ok"}
    ready = (await world.http.get("/readyz")).json()
    assert ready["status"] == "ready"
    assert ready["facts"]["database"] is True


async def test_the_public_keys_of_the_service_are_published_without_a_token(
    world: ApiWorld,
) -> None:
    """Those of other processes on the database are there as well, and nothing private is."""
    keys = (await world.http.get("/.well-known/jwks.json")).json()["keys"]
    jwk = SERVICE.public.jwk()
    kid = SERVICE.public.thumbprint()
    assert {**jwk, "kid": kid, "alg": "ES256", "use": "sig"} in keys
    assert {frozenset(key) for key in keys} == {
        frozenset({"kty", "crv", "x", "y", "kid", "alg", "use"})
    }


async def test_metrics_count_requests_by_template_and_name_nobody(world: ApiWorld) -> None:
    alice = world.person("alice-in-metrics")
    await alice.get("/v1/runs/run_in_metrics")
    await alice.ask("BREW", "/v1/nothing-in-metrics")
    await alice.ask("BREW", "/v1/runs")
    answer = await world.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    line = (
        'turngate_http_request_seconds_count{method="GET",route="/v1/runs/{run_id}",status="404"}'
    )
    assert line in text
    assert 'method="other",route="unmatched",status="404"' in text
    for name in ("in_metrics", "in-metrics", world.tenant, "BREW"):
        assert name not in text


async def schema(world: ApiWorld, name: str) -> Draft202012Validator:
    answer = await world.person().get(f"/v1/schemas/{name}")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


async def test_the_event_schema_takes_what_the_log_holds(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run()
    await alice.post(f"/v1/runs/{run['id']}/cancel")
    events = (await alice.get(f"/v1/runs/{run['id']}/events")).json()["items"]
    assert {event["type"] for event in events} >= {"run.created", "run.cancelled"}
    validator = await schema(world, "event")
    for event in events:
        validator.validate(event)
        with pytest.raises(ValidationError):
            validator.validate(event | {"type": "run.invented"})


@pytest.mark.parametrize(
    ("frame", "is_sound"),
    [
        ({"type": "subscribe"}, True),
        ({"type": "subscribe", "after": 0, "mode": "hold", "window": 4096}, True),
        ({"type": "subscribe", "window": 4097}, False),
        ({"type": "subscribe", "after": -1}, False),
        ({"type": "subscribe", "surprise": 1}, False),
        ({"type": "auth"}, False),
        ({"type": "auth", "token": "t"}, True),
        ({"type": "ack", "seq": 3}, True),
        ({"type": "ping"}, True),
        ({"type": "what"}, False),
        ({}, False),
    ],
    ids=str,
)
async def test_the_schema_of_client_frames(
    world: ApiWorld, frame: dict[str, Any], is_sound: bool
) -> None:
    assert (await schema(world, "client_frame")).is_valid(frame) is is_sound


async def test_the_schema_of_server_frames(world: ApiWorld) -> None:
    validator = await schema(world, "server_frame")
    event = {
        "conversation_id": "conv_1",
        "seq": 2,
        "run_id": "run_1",
        "turn_id": None,
        "step": None,
        "type": "text.delta",
        "at": "2026-11-29T12:00:00.000Z",
        "trust": "unspecified",
        "data": {"text": "hi"},
    }
    validator.validate({"type": "event", "seq": 2, "prev": 0, "event": event})
    cut = event | {
        "cut": ["/text"],
        "data": {"text": "h", "worker": {"call_id": "c", "agent": "w"}},
    }
    validator.validate({"type": "event", "seq": 2, "prev": 0, "event": cut})
    for frame in (
        {"type": "live"},
        {"type": "pong"},
        {"type": "end", "status": "failed"},
        {"type": "error", "code": "auth.token", "detail": "x"},
        {"type": "demoted", "reason": "cooldown"},
    ):
        validator.validate(frame)
    assert not validator.is_valid({"type": "event", "seq": 2, "prev": 0, "event": {}})


async def test_the_schema_of_the_decision_payload(world: ApiWorld) -> None:
    document = (await schema(world, "decision_payload")).schema
    assert isinstance(document, dict)
    assert len(document["required"]) == 22
    assert document["additionalProperties"] is False


async def test_there_is_no_other_schema(world: ApiWorld) -> None:
    problem(await world.person().get("/v1/schemas/nothing"), 404, "not_found")


async def test_the_description_is_served_as_it_is_committed(world: ApiWorld) -> None:
    answer = await world.http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == COMMITTED.read_bytes()


async def test_tools_are_listed_by_name(world: ApiWorld) -> None:
    alice = world.person()
    items = (await alice.get("/v1/tools")).json()["items"]
    names = [tool["name"] for tool in items]
    assert names == sorted(names)
    [post] = [tool for tool in items if tool["name"] == "http_post"]
    assert post["required_capabilities"] == ["arbitrary-egress", "mutate-external"]
    assert (post["origin"], post["ingests_untrusted"], post["idempotent"]) == (
        "fetcher",
        True,
        False,
    )
    assert (post["viable"], post["why_not"]) == (True, None)
    Draft202012Validator.check_schema(post["parameters"])
    first = (await alice.get("/v1/tools?limit=3")).json()
    rest = (await alice.get(f"/v1/tools?cursor={first['next_cursor']}")).json()
    assert first["items"] + rest["items"] == items
