"""An off feature changes no byte of a request, a result or the log (turn.md 2.1, I16, T7)."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any, Final

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.options import ApprovalOverride, Identity, RunTurnOptions, VerifiedAnswer
from app.turn.ports import CacheHint, DispatchMutation
from app.turn.result import EndedBy
from tests.support.turn.journal import KeptStream
from tests.support.turn.tools import POST
from tests.turn.plain_runs import GOLDEN, Script, bytes_of, corpus, played, script_by

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
# What drives the generated runs brings the decisions and the clock itself.
SWITCHED_OFF: Final = {
    name: value for name, value in OFF.items() if name not in {"approval_decisions", "clock"}
}


def test_a_default_options_object_has_every_feature_off() -> None:
    options = RunTurnOptions()
    assert {item.name: getattr(options, item.name) for item in fields(options)} == OFF


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A run of the kind the corpus is made of, chosen by hypothesis."""
    return script_by(lambda among: draw(st.sampled_from(among)))


@settings(max_examples=100, deadline=None)
@given(script=scripts())
def test_i16_default_options_and_every_feature_switched_off_give_the_same_bytes(
    script: Script,
) -> None:
    """T7."""
    plain = bytes_of(asyncio.run(played(script)))
    assert bytes_of(asyncio.run(played(script, **SWITCHED_OFF))) == plain


@settings(max_examples=150, deadline=None)
@given(script=scripts(), more=st.sampled_from(list(IDLE.values())))
def test_i16_what_is_idle_changes_no_byte(script: Script, more: dict[str, Any]) -> None:
    plain = bytes_of(asyncio.run(played(script)))
    assert bytes_of(asyncio.run(played(script, **more))) == plain


def test_t7_plain_turns_are_byte_for_byte_what_they_were() -> None:
    """The file says what models were sent, what turns returned and what the log got.

    If it is to change, `python -m tests.turn.plain_runs` writes it again; the change is the review.
    """
    assert list(corpus()) == GOLDEN.read_bytes().splitlines()


def test_the_corpus_has_turns_of_every_plain_kind() -> None:
    lines = [orjson.loads(line) for line in GOLDEN.read_bytes().splitlines()]
    results = [line["result"] for line in lines if "result" in line]
    assert len(results) >= 50
    assert {result["ended_by"] for result in results} == set(EndedBy)
    assert {(result["failure"] or {}).get("kind") for result in results} == {None, "auth", "other"}
    assert any((result["mid_stream_failure"] or {}).get("had_text") for result in results)

    facts = [fact for line in lines if "commit" in line for fact in line["commit"]]
    assert {data["outcome"] for type_, _, _, data, _ in facts if type_ == "tool.settled"} == {
        *("unknown_tool", "malformed_arguments", "invalid_arguments", "denied_by_policy"),
        *("denied", "expired"),
    }
    assert {type_ for type_, *_ in facts} == {
        *("step.started", "message.assistant", "step.completed"),
        *("call.gated", "tool.started", "tool.completed", "tool.failed", "tool.settled"),
    }

    requests = [line["request"] for line in lines if "request" in line]
    assert any(request.get("calls_allowed") is False for request in requests), "no closing"
    told = GOLDEN.read_text()
    for part in ('"type":"reasoning"', "The approver changed this call", '"Only this once."'):
        assert part in told
