"""Every way a call can be reached meets the same gate (turn.md I7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.policy.gate import decide
from app.policy.grants import SessionApproval
from app.turn.gate import gating
from app.turn.options import Identity
from app.turn.result import EndedBy
from tests.architecture.sources import APP, imports
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, MemoryTool
from tests.support.turn.world import World, approve

if TYPE_CHECKING:
    from app.policy.capability import CapabilitySet
    from app.policy.gate import CallPolicy, GateOutcome


@dataclass
class Spy:
    """Stands in front of `decide()` and remembers which tools it was asked about."""

    asked: list[str] = field(default_factory=list)

    def decide(
        self,
        required: CapabilitySet,
        granted: CapabilitySet,
        *,
        call_policy: CallPolicy,
        tool_name: str,
    ) -> GateOutcome:
        self.asked.append(tool_name)
        return decide(required, granted, call_policy=call_policy, tool_name=tool_name)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    watching = Spy()
    monkeypatch.setattr(gating, "decide", watching.decide)
    return watching


@dataclass(frozen=True)
class Way:
    """How a call comes to run, or not to."""

    name: str
    options: dict[str, Any]
    runs: bool = True
    taint: bool = False


WAYS = [
    Way("attended", {}),
    Way("unattended", {"unattended": True}),
    Way("unattended_and_refused", {"unattended": True}, runs=False, taint=True),
    Way("a_worker", {"is_delegated_worker": True}),
    Way(
        "a_session_approval",
        {"session_approved_tools": {"fetch": SessionApproval(EGRESS, "appr_0")}},
        taint=True,
    ),
    Way("streamed_to_nobody", {"stream_tx": None}),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_f58_every_mode_passes_the_gate(spy: Spy, way: Way) -> None:
    tool = MemoryTool("fetch", EGRESS, cacheable=True)
    world = World([reply(called("c1", "fetch", {})), reply(said("ok"))], tool)
    await world.turn(untrusted_context_seed=way.taint, **way.options)
    assert spy.asked == ["fetch"]
    assert world.tools.ran == (["fetch"] if way.runs else [])


async def test_f58_what_waited_is_gated_again_and_what_was_decided_is_not(spy: Spy) -> None:
    world = World(
        [reply(called("c1", "post", {}), called("c2", "fetch", {})), reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
        MemoryTool("fetch", EGRESS),
    )
    paused = await world.turn()
    assert paused.ended_by is EndedBy.PAUSE
    before = len(spy.asked)
    await world.turn(approval_decisions=[approve(one) for one in paused.pending_approvals])
    assert spy.asked[before:] == ["fetch"]
    assert sorted(world.tools.ran) == ["fetch", "post"]


async def test_f58_only_a_decision_takes_the_place_of_the_gate(spy: Spy) -> None:
    world = World(
        [reply(called("c1", "post", {}), called("c2", "read", {})), reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
        MemoryTool("read", READ),
    )
    await world.turn(approved_call_ids=frozenset({Identity("c1", "post", "{}")}))
    assert set(spy.asked) == {"read"}
    assert sorted(world.tools.ran) == ["post", "read"]


def test_f58_one_module_asks_the_gate() -> None:
    askers = [
        path.relative_to(APP)
        for path in APP.rglob("*.py")
        if any(name == "app.policy.gate.decide" for name, _ in imports(path))
    ]
    assert askers == [Path("turn/gate/gating.py")]
