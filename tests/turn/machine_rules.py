"""The rules of turn.md 11 as an auditor holds them against a run's journal and its executions."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from app.engine.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from app.log.calls import (
    MessageAssistant,
    RetrievalMissed,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.log.runs import StepStarted
from app.policy.taint import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.log.calls import ReplyPart
    from tests.turn.machine_world import Given, MachineWorld

HARMLESS: Final = {"read", "crm", "inbox"}
IDEMPOTENT: Final = {"stamp"}
ASKING: Final = {"post", "stamp", "share"}
NEVER: Final = {"vetoed", "admin", "nope"}
LEAVING: Final = {"fetch", "post"}


def check_results(world: MachineWorld) -> None:
    """I6: one result a call at most, and all of them before the model is asked again."""
    emitted: list[str] = []
    ended = Counter[str]()
    for fact in world.journal.facts:
        match fact.payload:
            case MessageAssistant(content=content):
                emitted += [part.call_id or "" for part in content if part.type == "tool_call"]
            case StepStarted():
                assert set(emitted) == set(ended), "the model is asked before a call has its result"
            case (
                ToolCompleted(call_id=call_id)
                | ToolFailed(call_id=call_id)
                | ToolSettled(call_id=call_id)
            ):
                ended[call_id] += 1
            case _:
                pass
    assert len(set(emitted)) == len(emitted)
    assert set(ended) <= set(emitted)
    assert set(ended.values()) <= {1}


def check_requests(world: MachineWorld) -> None:
    """I6, I22: in what the model is sent each call has one result, in source order, behind it."""
    for request in world.endless.requests:
        for index, message in enumerate(request.messages):
            if not isinstance(message, AssistantMessage):
                continue
            calls = [part.name for part in message.content if isinstance(part, ToolCall)]
            if calls:
                answers = request.messages[index + 1]
                assert isinstance(answers, UserMessage)
                named = [part.name for part in answers.content if isinstance(part, ToolResult)]
                assert named == calls


def check_consents(world: MachineWorld) -> None:
    """I1, I2, I15: each start has a consent of its own, or needs none, and effects come once."""
    used = Counter[str]()
    for call_id, starts in _starts(world).items():
        tool = starts[0].tool
        free = [start for start in starts if start.covered_by is None]
        used.update(one.covered_by.id for one in starts if _is_decided(one) and one.covered_by)
        if tool in ASKING:
            assert starts[0].covered_by is not None, f"{tool} ran and nobody was asked"
        if tool not in HARMLESS | IDEMPOTENT:
            assert len(free) <= 1, f"{tool} ran again silently"
            assert not free or free == [starts[0]]
        approvals = [one for one in world.given if one.card.call_id == call_id]
        approved = {one.decision.approval_id for one in approvals if one.decision.approved}
        assert {
            one.covered_by.id for one in starts if _is_decided(one) and one.covered_by
        } <= approved
        assert len(starts) == len({start.attempt for start in starts})
    assert set(used.values()) <= {1}, "one decision served twice"


def check_arguments(world: MachineWorld) -> None:
    """I4: what runs is what was shown and signed, or the proposal where nobody was asked."""
    allowed: dict[str, list[str]] = {}
    for call_id, starts in _starts(world).items():
        text, digests = _proposals(world)[call_id], []
        for start in starts:
            decision = _decision(world, start)
            text = text if decision is None else decision.effective
            assert start.args_sha256 == sha256(text.encode()).hexdigest()
            digests.append(start.args_sha256)
        allowed[call_id] = digests
    for call in world.tools.calls:
        assert json.loads(call.args_canonical) == call.args
        allowed[call.call_id].remove(sha256(call.args_canonical).hexdigest())


def check_taint(world: MachineWorld) -> None:
    """I10: once anything untrusted is in the log, nothing leaves in a later step unless asked."""
    tainted = tainted_step = False
    emitted_clean: set[str] = set()
    for fact in world.journal.facts:
        match fact.payload:
            case StepStarted(tainted=is_tainted):
                assert is_tainted or not tainted, "a step forgot the taint"
                tainted_step = tainted
            case MessageAssistant(content=content) if not tainted_step:
                emitted_clean |= {part.call_id or "" for part in content}
            case ToolStarted(tool=tool, call_id=call_id, covered_by=None) if tool in LEAVING:
                assert call_id in emitted_clean
            case _:
                pass
        tainted = tainted or fact.trust is Trust.QUARANTINED_CONTENT


def check_never_run(world: MachineWorld) -> None:
    """I8, I9, I11: veto, ceiling and scope hold, and the hatch opens once a turn at most."""
    assert not NEVER & {call.name for call in world.tools.calls}
    assert not NEVER & {one.card.tool_name for one in world.given}
    missed = Counter(one.call_id.split("_")[1] for one in world.journal.of(RetrievalMissed))
    assert set(missed.values()) <= {1}
    assert world.hatch or not missed


def check_waiting(world: MachineWorld) -> None:
    """I14: a turn that pauses has started nothing of its open batch with an effect unordered."""
    batch = {part.call_id for part in _calls(world.journal.of(MessageAssistant)[-1:])}
    for fact in world.latest_turn():
        start = fact.payload
        if not isinstance(start, ToolStarted) or start.call_id not in batch:
            continue
        if start.tool not in HARMLESS:
            is_again = start.tool in IDEMPOTENT and start.attempt > 1
            assert is_again or start.covered_by is not None


def _starts(world: MachineWorld) -> dict[str, list[ToolStarted]]:
    found: defaultdict[str, list[ToolStarted]] = defaultdict(list)
    for start in world.journal.of(ToolStarted):
        found[start.call_id].append(start)
    return found


def _proposals(world: MachineWorld) -> dict[str, str]:
    calls = _calls(world.journal.of(MessageAssistant))
    return {part.call_id or "": part.args_canonical or "" for part in calls}


def _calls(messages: list[MessageAssistant]) -> Iterator[ReplyPart]:
    return (part for one in messages for part in one.content if part.type == "tool_call")


def _is_decided(start: ToolStarted) -> bool:
    return start.covered_by is not None and start.covered_by.kind == "decision"


def _decision(world: MachineWorld, start: ToolStarted) -> Given | None:
    """The word behind a start, if a person's word on this very call is behind it."""
    if not _is_decided(start) or start.covered_by is None:
        return None
    ids = {one.decision.approval_id: one for one in world.given}
    return ids[start.covered_by.id]
