"""An off feature changes no byte of a request, a result or the log (turn.md 2.1, I16, T7)."""

from __future__ import annotations

import asyncio
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from app.engine.messages import AssistantMessage, AssistantText, Message, UserMessage
from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.options import ApprovalOverride, Identity, RunTurnOptions, VerifiedAnswer
from app.turn.ports import CacheHint, DispatchMutation
from tests.support.turn_journal import KeptStream
from tests.support.turn_provider import called, reply, said, thought
from tests.support.turn_tools import POST, MemoryTool
from tests.support.turn_world import World
from tests.turn.test_properties import ANSWERS, REPLIES, drive, world_of

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "plain_turn.jsonl"

# Every feature as turn.md 2.2 has it when it is off.
OFF: Final[dict[str, Any]] = {
    "approval_decisions": (),
    "approved_call_ids": frozenset(),
    "approved_overrides": {},
    "denied_call_ids": frozenset(),
    "max_steps": None,
    "default_max_steps": None,
    "stream_tx": None,
    "native_search_allowed": False,
    "session_approved_tools": {},
    "remembered_grants": {},
    "grant_register": None,
    "unattended": False,
    "escape_hatch": False,
    "escalate_sandbox_denials": False,
    "untrusted_context_seed": False,
    "dispatch_recorder": None,
    "clock": None,
    "cache_hint": CacheHint.NONE,
    "delegate_descriptors": (),
    "delegate_max_fanout": None,
    "delegate_turn_budget": None,
    "is_delegated_worker": False,
    "question_answers": (),
    "turn_start_unix_ms": None,
}
ELSEWHERE: Final = Identity("c9", "elsewhere", "{}")


class NothingToRecord:
    """A recorder that no rule ever calls."""

    async def record(self, mutation: DispatchMutation) -> bool:
        raise AssertionError(f"nothing was to be recorded, and {mutation.kind} was")


# Features that are on and find nothing to do in the generated runs: they must leave no trace.
IDLE: Final[dict[str, dict[str, Any]]] = {
    "the default cap, spelled out": {"max_steps": 8},
    "the default cap, by settings": {"default_max_steps": 8},
    "a reader": {"stream_tx": KeptStream()},
    "consent to another tool": {"session_approved_tools": {"x": SessionApproval(POST, "appr_9")}},
    "consent to a tool that takes none": {
        "session_approved_tools": {"post": SessionApproval(POST, "appr_9")}
    },
    "a grant for another tool": {"remembered_grants": {"x": (RememberedGrant(POST, "g", "hash"),)}},
    "a hatch that finds nothing": {"escape_hatch": True},
    "a sandbox that denies nothing": {"escalate_sandbox_denials": True},
    "rules that change nothing": {"dispatch_recorder": NothingToRecord()},
    "limits of delegating nobody does": {"delegate_max_fanout": 0, "delegate_turn_budget": 1000},
    "decisions on calls that are nowhere": {"denied_call_ids": frozenset({ELSEWHERE})},
    "an edit without an approval": {"approved_overrides": {ELSEWHERE: ApprovalOverride("{}")}},
    "an answer nobody asked for": {
        "question_answers": [
            VerifiedAnswer(
                turn_id="turn_9", call_id="x", index=0, args_sha256="", outcome="declined"
            )
        ]
    },
}
# What drives the generated runs needs the decisions and the clock itself.
CHOICES: Final = (
    *({name: value} for name, value in OFF.items() if name not in {"approval_decisions", "clock"}),
    *IDLE.values(),
)


def test_a_default_options_object_has_every_feature_off() -> None:
    options = RunTurnOptions()
    assert {item.name: getattr(options, item.name) for item in fields(options)} == OFF


@settings(max_examples=150, deadline=None)
@given(replies=REPLIES, answers=ANSWERS, more=st.sampled_from(CHOICES))
def test_i16_what_is_off_or_idle_changes_no_byte(
    replies: list[list[tuple[str, str]]], answers: list[str], more: dict[str, Any]
) -> None:
    plain, other = world_of(replies), world_of(replies)
    asyncio.run(drive(plain, answers))
    asyncio.run(drive(other, answers, **more))
    assert seen(other) == seen(plain)
    assert other.run.dump_json() == plain.run.dump_json()


@pytest.mark.parametrize("more", IDLE.values(), ids=IDLE)
async def test_t7_a_plain_turn_is_byte_for_byte_what_it_was(more: dict[str, Any]) -> None:
    """The file says what a model was sent and what the log got when no feature was thought of."""
    earlier: list[Message] = [
        UserMessage.of_text("before"),
        AssistantMessage(content=(AssistantText(text="yes?"),)),
    ]
    world = World(
        [
            reply(thought("hm"), said("Let me look."), called("c1", "read", {"path": "a"})),
            reply(said("It says so.")),
        ],
        MemoryTool("read"),
        MemoryTool("post", POST, asks=True),
        history=earlier,
    )
    await world.turn(**more)
    assert seen(world) == GOLDEN.read_bytes().splitlines()


def seen(world: World) -> list[bytes]:
    """What leaves the turns, a line each: the requests, the results, what the log got at once.

    A member that has its default is left out, so a feature that comes later adds nothing.
    """
    commits = [
        [[fact.payload.TYPE, fact.payload, fact.step, fact.trust, fact.private] for fact in commit]
        for commit in world.journal.commits
    ]
    lines = [*world.prepared.requests, *world.results, *commits]
    option = orjson.OPT_PASSTHROUGH_DATACLASS
    return [orjson.dumps(line, default=_plain, option=option) for line in lines]


def _plain(value: object) -> object:
    match value:
        case BaseModel():
            return value.model_dump(mode="json", exclude_defaults=True)
        case frozenset():
            return sorted(value)
        case bytes():
            return value.decode()
        case _ if is_dataclass(value):
            members = {item.name: (item, getattr(value, item.name)) for item in fields(value)}
            return {name: own for name, (item, own) in members.items() if own != item.default}
        case _:
            raise TypeError(type(value).__name__)
