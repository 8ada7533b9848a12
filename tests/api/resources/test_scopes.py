"""Who gets in: tokens, scopes, and the routes that need none (service.md 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fastapi.routing import APIRoute

from app.api.routes import EdgeRoute
from app.service.access.development import TokenOrder
from app.service.caller import SCOPES
from tests.support.api.world import ISSUER, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPEN = {"/healthz", "/readyz", "/metrics", "/.well-known/jwks.json", "/openapi.json"}

# The scopes of service.md 2, by the operation they open.
OPENS = {
    "runs:read": (
        "list_runs get_run list_conversations get_conversation list_messages get_schema "
        "list_run_events list_conversation_events get_event list_questions get_question "
        "list_artifacts get_artifact get_artifact_content presign_artifact"
    ),
    "runs:write": (
        "create_run cancel_run create_conversation update_conversation answer_question "
        "delete_memory"
    ),
    "approvals:read": "list_approvals get_approval list_session_approvals get_schema",
    "approvals:decide": (
        "prepare_decision prepare_passkey_decision approve_approval deny_approval decide_batch "
        "end_session_approval answer_question"
    ),
    "agents:read": "list_agents get_agent get_schema",
    "agents:write": "put_agent delete_agent",
    "tools:read": "list_tools get_schema list_mcp_servers get_mcp_server list_skills get_skill",
    "tools:write": "register_mcp_server refresh_mcp_server delete_mcp_server",
    "skills:write": "put_skill delete_skill import_skills",
    "keys:write": (
        "register_key list_keys revoke_key prepare_passkey register_passkey list_passkeys "
        "revoke_passkey"
    ),
    "grants:write": (
        "prepare_grant enrol_grant list_grants get_grant prepare_grant_revocation revoke_grant"
    ),
    "memory:read": "get_memory search_memory",
    "artifacts:write": "create_artifact delete_artifact",
    "admin": "reset_keys list_audit_events revoke_tokens suspend_grant",
}


def routes(world: ApiWorld) -> list[APIRoute]:
    return [route for route in world.app.routes if isinstance(route, APIRoute)]


async def test_every_route_but_the_open_ones_has_a_scope(world: ApiWorld) -> None:
    unguarded = {
        route.path for route in routes(world) if not (isinstance(route, EdgeRoute) and route.scopes)
    }
    assert unguarded == OPEN


async def test_every_scope_opens_what_the_specification_says(world: ApiWorld) -> None:
    opened = {
        (scope, route.operation_id)
        for route in routes(world)
        if isinstance(route, EdgeRoute)
        for scope in route.scopes
    }
    assert opened == {(scope, name) for scope, names in OPENS.items() for name in names.split()}
    assert {scope for scope, _ in opened} <= SCOPES


async def test_without_the_scope_a_route_is_closed_and_says_which(world: ApiWorld) -> None:
    for route in routes(world):
        if not isinstance(route, EdgeRoute):
            continue
        method = next(iter(route.methods or ()))
        path = route.path.replace("{", "").replace("}", "")
        others = tuple(sorted(SCOPES - {"admin", *route.scopes}))
        answer = await world.person(scopes=others).ask(method, path, {})
        assert problem(answer, 403, "auth.scope")["scope"] == route.scopes[0]
        assert "insufficient_scope" in answer.headers["www-authenticate"]


async def test_admin_opens_every_scope(world: ApiWorld) -> None:
    boss = world.person("boss", scopes=("admin",))
    for path in ("/v1/runs", "/v1/approvals", "/v1/agents", "/v1/tools", "/v1/keys"):
        assert (await boss.get(path)).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer x.y.z", "Basic YWxpY2U6cGFzcw==", "Bearer " + "x" * 9000],
)
async def test_without_a_token_that_holds_nobody_gets_in(world: ApiWorld, header: str) -> None:
    for path in ("/v1/runs", "/v1/schemas/event"):
        answer = await world.http.get(path, headers={"Authorization": header} if header else {})
        problem(answer, 401, "auth.token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_the_scheme_is_read_whatever_its_case(world: ApiWorld) -> None:
    header = {"Authorization": f"bEARER {world.person().token}"}
    assert (await world.http.get("/v1/runs", headers=header)).status_code == 200


async def test_of_two_tokens_none_counts(world: ApiWorld) -> None:
    good = ("Authorization", f"Bearer {world.person().token}")
    for other in (good, ("Authorization", "Bearer x.y.z"), ("Authorization", "")):
        for headers in ([good, other], [other, good]):
            problem(await world.http.get("/v1/runs", headers=headers), 401, "auth.token")


async def test_a_token_in_the_url_is_no_token(world: ApiWorld) -> None:
    answer = await world.http.get(f"/v1/runs?access_token={world.person().token}")
    problem(answer, 401, "auth.token")


async def test_another_tenants_resources_are_missing(world: ApiWorld) -> None:
    alice, eve = world.person(), world.person(tenant=f"{world.tenant}-evil")
    await alice.agent()
    run = await alice.run()
    for path in (
        f"/v1/runs/{run['id']}",
        f"/v1/conversations/{run['conversation_id']}",
        f"/v1/conversations/{run['conversation_id']}/messages",
        "/v1/agents/helper",
    ):
        assert (await alice.get(path)).status_code == 200
        problem(await eve.get(path), 404, "not_found")
    for path in ("/v1/runs", "/v1/conversations", "/v1/agents"):
        assert (await eve.get(path)).json()["items"] == []
    foreign = problem(await eve.get(f"/v1/runs/{run['id']}"), 404, "not_found")
    missing = problem(await alice.get("/v1/runs/run_0"), 404, "not_found")
    assert foreign["detail"] == missing["detail"]


async def test_a_token_for_another_audience_is_refused(world: ApiWorld) -> None:
    order = TokenOrder(world.tenant, "alice", ("runs:read",))
    token = ISSUER.token(order, audience="elsewhere", clock=world.clock)
    answer = await world.http.get("/v1/runs", headers={"Authorization": f"Bearer {token}"})
    problem(answer, 401, "auth.token")
