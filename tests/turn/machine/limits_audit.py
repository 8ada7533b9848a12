"""The invariants about the turn as a whole: equal, bounded, quiet and unable to sign (turn.md 11).

Some of them hold by construction. They are looked at once, and whatever of them shows in a step is
looked at after each step: a turn is driven again from the same inputs and must come out the same.
That costs as much as the turn itself, so three invariants take turns at it.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from app.log.calls import DelegateStarted, MessageAssistant, ToolFailed
from app.log.runs import StepStarted
from app.tools.executors.forwarding import ForwardingExecutor
from app.turn.ports import CacheHint, ToolExecutor
from app.turn.result import EndedBy
from tests.architecture.test_signers import SIGNERS, modules, reached
from tests.trust.decisions import APPROVE, HEAD
from tests.trust.signer import b64, compact
from tests.turn.machine.audit import Audited, holds
from tests.turn.machine.drive import BUDGET, FANOUT, MAX_STEPS, WORKER_STEPS, Taken, twin
from tests.turn.machine.house import TOOLS
from tests.turn.machine.people import verified_of
from tests.turn.machine.runlog import thread_of
from tests.turn.machine.script import ASK, DELEGATE, MALFORMED, TOO_DEEP, TOO_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.turn.ports import ModelRequest
    from tests.turn.machine.history import Call
    from tests.turn.machine.world import Drive

RESULT_BYTES: Final = 64 * 1024
CLOSING: Final = 1
DIALS: Final = 4
MALFORMED_IN_A_ROW: Final = 3
REPEATED_DENIALS: Final = 3
# min(0.5 s * 2^attempt, 8 s) * (0.5 + 0.5 j), where j is 0.5.
WAITS: Final = (0.375, 0.75, 1.5)
CAPABILITIES: Final = (
    "local-read",
    "local-write",
    "fixed-connector-read",
    "arbitrary-egress",
    "mutate-external",
    "grant-access",
    "revoke-access",
    "manage-admin",
    "grant-admin",
)


class LimitsAudit(Audited):
    """What no turn exceeds, and what makes none differ."""

    @holds
    def an_off_feature_changes_no_byte(self) -> None:
        """I16: whatever it would look at may be there, and be anything; who reads along, too."""
        for drove in self._in_turn(0):
            assert came(self._twin(drove, off=True)) == came(drove.taken)
        for drove in self.latest():
            for request in drove.taken.requests:
                self._shows_what_is_on(request)

    def _shows_what_is_on(self, request: ModelRequest) -> None:
        """No search, no cache mark, no tool of a feature that is off."""
        kind, is_root = self.world.kind, request.model == "scripted"
        assert (request.web_search, request.cache_hint) == (False, CacheHint.NONE)
        assert (request.context, request.files) == ((), ())
        if request.calls_allowed:
            names = {spec.name for spec in request.tools}
            assert (DELEGATE in names) == (is_root and kind.staffed)
            assert (ASK in names) == (is_root and not kind.unattended)
            assert kind.hatch or names.isdisjoint(
                name for name, known in TOOLS.items() if not known.advertised
            )

    @holds
    def a_turn_is_deterministic(self) -> None:
        """I17: given script, tools and clock, a turn on a copy of the log comes out the same."""
        for drove in self._in_turn(1):
            again = self._twin(drove)
            assert came(again) == came(drove.taken)
            assert (again.runs, again.recorded) == (drove.taken.runs, drove.taken.recorded)
            assert again.told == drove.taken.told
        for drove in self.latest():
            self._waits_as_the_clock_says(drove)
            for event in drove.taken.events[drove.began :]:
                # A set has another order in every process, so nothing may stand in it.
                granted = list(getattr(event.payload, "granted", ()))
                assert granted == sorted(granted)
                missing = list(getattr(event.payload, "missing", ()))
                assert missing == sorted(missing, key=CAPABILITIES.index)

    def _waits_as_the_clock_says(self, drove: Drive) -> None:
        """The waits of turn.md 10, under the chance of this clock, one between any two dials."""
        dials = Counter[tuple[str, str | None, int | None]]()
        for event in drove.taken.events[drove.began :]:
            if isinstance(event.payload, StepStarted):
                dials[thread_of(event), event.turn_id, event.step] += 1
        waits = [WAITS[at] for count in dials.values() for at in range(count - 1)]
        if drove.result is not None:
            assert sorted(drove.taken.slept) == sorted(waits)

    def _in_turn(self, at: int) -> Iterator[Drive]:
        """The latest drive, if it is this invariant's turn to have it driven again."""
        for drove in self.latest():
            if drove.ended % 3 == at and not drove.taken.has_twin:
                drove.taken.has_twin = True
                yield drove

    def _twin(self, drove: Drive, **changed: Any) -> Taken:
        return twin(drove.inputs, drove.known, **changed)

    @holds
    def the_engine_cannot_sign(self) -> None:
        """I18: no import leads from it to a signer, and nothing that it states is signed."""
        assert not signers_in_reach()
        for drove in self.latest():
            for event in drove.taken.events[drove.began :]:
                assert not getattr(event.payload, "signature", "")
                assert not getattr(event.payload, "kid", "")

    @holds
    def a_signature_covers_the_whole_message(self) -> None:
        """I19: a decision with any one member changed is nobody's."""
        for token in self.world.people.tokens[-1:]:
            assert verified_of(token) is not None
            head, body, signature = token.split(".")
            fields = verified_fields(token)
            assert fields.keys() == APPROVE.keys()
            for name in fields:
                changed = compact(fields | {name: other(name, fields[name])})
                assert body != b64(changed)
                assert verified_of(f"{head}.{b64(changed)}.{signature}") is None
            assert (
                verified_of(f"{b64(compact(HEAD | {'kid': 'key_2'}))}.{body}.{signature}") is None
            )

    @holds
    def composed_executors_forward_every_method(self) -> None:
        """I20: an executor around the tools makes no difference."""
        assert not unforwarded()
        for drove in self._in_turn(2):
            again = self._twin(drove, forwarded=not drove.inputs.forwarded)
            assert came(again) == came(drove.taken)

    @holds
    def everything_is_bounded(self) -> None:
        """I21: each by the number that turn.md gives it, or that this run has set."""
        for first, last in self._turns():
            for thread in self.world.history.threads:
                self._steps_are_bounded(thread, first, last)
            events = self.world.events[first:last]
            assert sum(one.type == DelegateStarted.TYPE for one in events) <= BUDGET
        for one in self.world.history.threads.values():
            for batch in one.batches:
                assert sum(bool(call.of(DelegateStarted)) for call in batch) <= FANOUT
        for call in self.world.history.calls.values():
            if self.world.sent(call) in {TOO_LONG, TOO_DEEP}:
                assert not call.starts
            for at in call.results:
                failed = isinstance(at.payload, ToolFailed)
                text = str(getattr(at.payload, "error" if failed else "result", ""))
                assert len(text.encode()) <= RESULT_BYTES
        asked = Counter(one.call_id for one in self.world.people.questions)
        assert all(count <= 3 for count in asked.values())
        assert all(len(one.question.options) <= 4 for one in self.world.people.questions)
        for drove in self.latest():
            assert drove.taken.ahead <= 1, "a thread goes on beside what nobody has read yet"

    def _turns(self) -> list[tuple[int, int]]:
        """Where in the log each turn begins and ends; one that lost its process goes on."""
        found: list[tuple[int, int]] = []
        began: int | None = None
        for drove in self.world.drives:
            began = drove.began if began is None else began
            if drove.result is not None or drove is self.world.drives[-1]:
                found.append((began, drove.ended))
                began = None
        return found

    def _steps_are_bounded(self, thread: str, first: int, last: int) -> None:
        own = [one for one in self.world.events[first:last] if thread_of(one) == thread]
        replies = sum(isinstance(one.payload, MessageAssistant) for one in own)
        assert replies <= (WORKER_STEPS if thread else MAX_STEPS) + CLOSING
        dials = Counter[tuple[str | None, int | None]]()
        dials.update((one.turn_id, one.step) for one in own if isinstance(one.payload, StepStarted))
        assert all(count <= DIALS for count in dials.values())
        batches = self.world.history.threads[thread].batches
        emitted = [batch for batch in batches if batch and first <= batch[0].emitted < last]
        row = 0
        for batch in emitted:
            assert row < MALFORMED_IN_A_ROW, "the model is asked after three malformed steps"
            is_malformed = any(self.world.sent(call) in MALFORMED for call in batch)
            row = row + 1 if is_malformed else 0
        denied = sum(any(_was_denied(call, last) for call in batch) for batch in emitted)
        assert denied <= REPEATED_DENIALS + bool(self.world.kind.denied)

    @holds
    def a_paused_run_holds_nothing(self) -> None:
        """I23, F44: no task, tool or stream; it waits for what is open, and where somebody is."""
        for drove in self.latest():
            result = drove.result
            if result is None:
                continue
            assert not drove.taken.left
            assert not (drove.there.unattended and result.ended_by is EndedBy.PAUSE)
            assert (result.ended_by is EndedBy.PAUSE) == bool(
                result.pending_approvals or result.pending_questions
            )
            calls = self.world.history.calls
            waited_for = {one.worker.call_id for one in result.pending_approvals if one.worker}
            assert {one.worker.call_id for one in result.paused_workers} == waited_for
            begun = [call for call in calls.values() if call.of(DelegateStarted)]
            assert all(len(call.of(DelegateStarted)) == 1 for call in begun)
            assert waited_for <= {call.call_id for call in begun}
            waiting = [one.call_id for one in result.pending_approvals]
            waiting += [one.call_id for one in result.pending_questions]
            for call_id in (*waiting, *waited_for):
                open_at_the_end = [at for at in calls[call_id].results if at.index < drove.ended]
                assert not open_at_the_end


def _was_denied(call: Call, before: int) -> bool:
    """Whether the call was denied by then, in the turn that emitted it."""
    is_denied = call.outcome in {"denied", "expired"}
    return is_denied and any(at.index < before for at in call.results)


def came(taken: Taken) -> tuple[object, ...]:
    """Everything a turn has brought about."""
    return (taken.events, taken.result, taken.requests)


def verified_fields(token: str) -> dict[str, Any]:
    """The members of a signed decision."""
    verified = verified_of(token)
    assert verified is not None
    fields: dict[str, Any] = json.loads(verified.payload_bytes)
    return fields


def other(name: str, value: object) -> object:
    """Another value that a sound decision could have there, but for members that have only one."""
    match value:
        case int():
            return value - 1
        case list():
            return [] if value else ["local-read"]
        case None:
            return "{}" if name == "override_args" else "relaxed"
        case "approve" | "deny":
            return "deny" if value == "approve" else "approve"
        case "once":
            return "session"
        case _:
            digit = str(value)[:1] != "A"
            return f"{'A' if digit else 'B'}{str(value)[1:]}"


@cache
def signers_in_reach() -> frozenset[str]:
    """The modules that sign, of those that the engine imports at whatever distance."""
    return frozenset(reached(modules("engine", "policy", "turn")) & SIGNERS)


@cache
def unforwarded() -> frozenset[str]:
    """The methods of the port that an executor around others answers by itself."""
    port = {name for name in vars(ToolExecutor) if not name.startswith("_")}
    passed = {
        name
        for name, method in inspect.getmembers(ForwardingExecutor, inspect.isfunction)
        if f"self._inner.{name}(" in inspect.getsource(method)
    }
    return frozenset(port - passed)
