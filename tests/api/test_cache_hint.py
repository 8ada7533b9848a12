"""What an agent says of caching reaches the vendor (turn.md 2.2, cache_hint)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.test_native_search import asked
from tests.support.loopback.search_servers import CLAUDE, SAYING

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]


@pytest.mark.parametrize(("hint", "marks"), [("stable_prefix", True), ("none", False)])
async def test_the_stable_prefix_is_marked_where_the_agent_says_so(
    world: ApiWorld, hint: str, marks: bool
) -> None:
    alice = world.person()
    agent = {"cache_hint": hint, "native_search": False, "instructions": "Be brief."}
    async with asked(world, alice, CLAUDE, SAYING[CLAUDE], **agent) as (run, server):
        [request] = [each.body for each in server.asked]
    assert run["status"] == "completed"
    assert ("cache_control" in str(request["system"])) is marks
    assert ("cache_control" in str(request["tools"])) is marks
