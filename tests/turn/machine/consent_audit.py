"""The invariants about what people, grants and rules let run (turn.md 11)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from app.log.calls import CallGated, DispatchMutated, PolicyRechecked, ToolStarted
from app.log.runs import StepStarted
from tests.turn.machine.audit import Audited, digest, holds
from tests.turn.machine.drive import Recording
from tests.turn.machine.house import TOOLS
from tests.turn.machine.law import is_harmless, may_run_decided, ruling
from tests.turn.machine.runlog import thread_of
from tests.turn.machine.script import CANONICAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.turn.options import ApprovalDecision
    from tests.turn.machine.history import At, Call
    from tests.turn.machine.people import Card
    from tests.turn.machine.world import Drive


class ConsentAudit(Audited):
    """What lets a call run, and what never does."""

    @holds
    def a_consent_covers_one_exact_occurrence(self) -> None:
        """I1: it never serves twice, never another tool, turn or argument."""
        used = Counter[str]()
        for call, at, start in self.world.history.started():
            given, by = self.world.drives[at.drive].inputs.options, start.covered_by
            if by is None:
                continue
            if by.kind == "decision":
                assert by.id in self.world.people.decided, "nobody decided that here"
                card = self.world.people.card_of(by.id)
                assert card.said is not None
                assert card.said.approved
                assert (card.call_id, card.pending.tool_name) == (call.call_id, call.tool)
                assert start.args_sha256 == digest(card.effective)
                used[by.id] += 1
                continue
            assert not call.thread, "a worker used a standing consent of its parent's"
            if by.kind == "session":
                assert given["session_approved_tools"][call.tool].approval_id == by.id
            else:
                assert by.id in {one.grant_ref for one in given["remembered_grants"][call.tool]}
                assert call.tool in dict(self.world.drives[at.drive].there.grants)
        assert set(used.values()) <= {1}, "one decision served twice"
        in_advance = Counter(self._canonical(call) for call in self._run_in_advance())
        assert set(in_advance.values()) <= {1}, "one tuple served twice"
        assert in_advance.keys() <= self._wanted(), "a tuple served another tool or argument"

    def _run_in_advance(self) -> Iterator[Call]:
        """The calls that ran by an approval that was there before the run."""
        for call, at, start in self.world.history.started():
            if start.covered_by is None and start.attempt == 1 and not call.of(CallGated, at.drive):
                yield call

    def _wanted(self) -> set[tuple[str, str]]:
        """What was approved before the run began."""
        return {(one.tool_name, one.args_json) for one in self.world.kind.approved}

    def _canonical(self, call: Call) -> tuple[str, str]:
        return call.tool, CANONICAL[self.world.sent(call)]

    @holds
    def each_decision_is_used_once_or_reported(self) -> None:
        """I2: and each request is answered by one decision."""
        open_calls = [card.call_id for card in self.world.people.undecided()]
        assert len(open_calls) == len(set(open_calls))
        number = len(self.world.drives) - 1
        for drove in self.latest():
            if drove.result is None:
                continue
            told = [one for one in drove.taken.told if one["event"] == "decision.unmatched"]
            reported = Counter(one["approval_id"] for one in told if one["approval_id"])
            for decision in drove.forwarded:
                uses = len(list(self._uses(decision, number)))
                assert uses + reported[decision.approval_id] == 1
            assert all(reported[one.approval_id] == 1 for one in drove.spent)
            asked = [one.call_id for one in drove.result.pending_approvals]
            assert len(asked) == len(set(asked))

    def _uses(self, decision: ApprovalDecision, drive: int) -> Iterator[int]:
        """Where, in the drive it was given to, a decision had its effect."""
        call = self.world.history.calls[decision.call_id or ""]
        by_it = [
            at
            for at in call.of(ToolStarted, drive)
            if isinstance(at.payload, ToolStarted)
            and at.payload.covered_by is not None
            and at.payload.covered_by.id == decision.approval_id
        ]
        settled = [at for at in call.results if at.drive == drive]
        if by_it or settled:
            yield min(at.index for at in (*by_it, *settled))
        elif any(
            card.pending.supersedes == decision.approval_id
            for card in self.world.drives[drive].shown
        ):
            yield self.world.drives[drive].began

    @holds
    def a_decision_takes_effect_unasked(self) -> None:
        """I3: whether or not the model re-emits the call, and before it is asked for anything."""
        number = len(self.world.drives) - 1
        for drove in self.latest():
            stale = [call for call in self.world.history.calls.values() if call.results]
            ended = {call.call_id for call in stale if call.results[0].index < drove.began}
            for decision in drove.forwarded:
                if drove.result is None or decision.call_id in ended:
                    continue
                call = self.world.history.calls[decision.call_id or ""]
                (use,) = self._uses(decision, number)
                # A request that took the place of another may be all that came of the drive.
                assert use <= self._first_step(drove, call.thread)

    def _first_step(self, drove: Drive, thread: str) -> int:
        """Where the model of a thread is first asked in the drive."""
        for index in range(drove.began, drove.ended):
            event = self.world.events[index]
            if isinstance(event.payload, StepStarted) and thread_of(event) == thread:
                return index
        return drove.ended

    @holds
    def what_runs_is_what_was_shown_and_signed(self) -> None:
        """I4: executed argument bytes = shown bytes = signed bytes."""
        shown = {card.approval_id: card for card in self.world.people.cards}
        for call in self.world.history.calls.values():
            if self.world.sent(call) not in CANONICAL:
                continue
            text = CANONICAL[self.world.sent(call)]
            for at, start in self._starts(call):
                by = start.covered_by
                if by is not None and by.kind == "decision":
                    assert shown[by.id].pending.args_json == text
                    text = shown[by.id].effective
                text = self._rewritten(call, at) or text
                assert start.args_sha256 == digest(text)
        for drove in self.latest():
            for ran, _ in drove.taken.runs:
                starts = self.world.history.calls[ran.call_id].starts
                assert digest(ran.args_canonical.decode()) == starts[-1].args_sha256

    def _starts(self, call: Call) -> Iterator[tuple[At, ToolStarted]]:
        for at in call.stated:
            if isinstance(at.payload, ToolStarted):
                yield at, at.payload

    def _rewritten(self, call: Call, at: At) -> str | None:
        """What the house has made of the arguments before that start, if it let it run by that."""
        gated = [one.payload for one in call.of(CallGated, at.drive)]
        if any(isinstance(one, CallGated) and one.outcome == "modify" for one in gated):
            kept = [one.index for one in call.of(DispatchMutated) if one.index < at.index]
            return (self.world.events[kept[-1]].private or b"").decode()
        return None

    @holds
    def every_execution_passes_the_gate_or_a_checked_decision(self) -> None:
        """I7: there is one gate, and it says what the rules say."""
        for call, at, gated in self.world.history.gated():
            said = ruling(call.tool, self.world.there(call, at.index, at.drive))
            assert (gated.outcome, gated.rule) == (said.outcome, said.rule)
            # A grant that was taken back in mid-turn is not looked up where a veto decides.
            if gated.outcome != "deny":
                assert set(gated.missing) == {one.value for one in said.missing}
            by = gated.covered_by.kind if gated.covered_by is not None else None
            # A session approval also answers an open request that the gate would let through now.
            if by == "session":
                assert said.by_session or said.runs
            else:
                assert by == ("grant" if said.by_grant else None)
        for call, at, start in self.world.history.started():
            assert any(self._licences(call, at, start)), f"nothing let {call.call_id} run"

    def _licences(self, call: Call, at: At, start: ToolStarted) -> Iterator[bool]:
        """What may have let a call start: a decision, the gate, its own earlier start, a tuple."""
        drove = self.world.drives[at.drive]
        by = start.covered_by
        given = [one.approval_id for one in drove.forwarded]
        yield by is not None and by.kind == "decision" and by.id in given
        for gate in call.of(CallGated, at.drive):
            said = gate.payload
            if isinstance(said, CallGated) and gate.index < at.index:
                kind = said.covered_by.kind if said.covered_by is not None else None
                passed = said.outcome in {"allow", "modify", "inject_context"}
                yield said.covered_by == by and (passed or kind == "session")
        may_rerun = TOOLS[call.tool].idempotent or is_harmless(call.tool, drove.there.policy)
        yield start.attempt > 1 and may_rerun
        yield at.drive == 0 and self._canonical(call) in self._wanted()

    @holds
    def nobody_satisfies_a_veto_or_the_ceiling(self) -> None:
        """I8: no person, no grant and no session approval."""
        for call, at, _ in self.world.history.started():
            policy = self.world.drives[at.drive].there.policy
            assert may_run_decided(call.tool, policy, covered=None)

    @holds
    def a_mutation_is_recorded_before_it_applies(self) -> None:
        """I13: where recording fails, the model sees neither version."""
        for drove in self.latest():
            for mutation, works, stood, runs in drove.taken.recorded:
                ran = [call.call_id for call, _ in drove.taken.runs]
                before = ran[:runs]
                is_of_result = mutation.kind == "result_redaction"
                assert (mutation.call_id in before) == is_of_result
                assert works or is_of_result or mutation.call_id not in ran
                assert drove.began <= stood
            if drove.inputs.recording is Recording.ABSENT:
                assert not drove.taken.recorded
            self._applied(drove)

    def _applied(self, drove: Drive) -> None:
        """A lost process may have recorded what another applies."""
        number = len(self.world.drives) - 1
        for call, at, _ in self.world.history.started():
            for gate in call.of(CallGated, number):
                said = getattr(gate.payload, "outcome", "")
                if at.drive == number and said in {"modify", "inject_context"}:
                    assert self._is_recorded(call, at), "a call ran before its change was recorded"
        for call, at in self.stated_in(number):
            if call.tool in TOOLS and TOOLS[call.tool].redacts and drove.there.records:
                assert f"result of {call.call_id}" not in at.payload.model_dump_json()
                if TOOLS[call.tool].redacts in at.payload.model_dump_json():
                    assert self._is_recorded(call, at), "a redaction was not recorded"

    def _is_recorded(self, call: Call, at: At) -> bool:
        return any(one.index < at.index for one in call.of(DispatchMutated))

    @holds
    def tightening_wins_and_loosening_is_never_retroactive(self) -> None:
        """I24: what was tightened holds at execution; what was asked before stays asked."""
        for call, at, start in self.world.history.started():
            by, policy = start.covered_by, self.world.drives[at.drive].there.policy
            if by is not None and by.kind == "decision":
                said = self.world.people.card_of(by.id).said
                assert said is not None
                assert may_run_decided(call.tool, policy, said.covered)
            if at.drive > call.drive:
                assert may_run_decided(call.tool, policy, None), "an open call ran by an old rule"
        number = len(self.world.drives) - 1
        for drove in self.latest():
            for decision in drove.forwarded:
                self._refused(decision, drove, number)
            for card in drove.waited:
                self._still_waits(card, drove)

    def _refused(self, decision: ApprovalDecision, drove: Drive, number: int) -> None:
        """What policy forbids by now is refused, and the log says that policy was tightened."""
        call, policy = self.world.history.calls[decision.call_id or ""], drove.there.policy
        ended = [at for at in call.results if at.drive == number]
        if decision.approved and ended and not may_run_decided(call.tool, policy, None):
            reasons = {"outside_ceiling", "denied_by_policy", "outcome_unknown"}
            assert call.outcome in {*reasons, "invalid_arguments", "cancelled"}
            if call.outcome in reasons:
                assert call.of(PolicyRechecked, number)

    def _still_waits(self, card: Card, drove: Drive) -> None:
        """Whoever was asked is asked still, by the same request, unless a consent answered it."""
        call, number = self.world.history.calls[card.call_id], len(self.world.drives) - 1
        if card.over:
            return
        assert not call.of(ToolStarted, number), "it ran, and nobody had let it"
        if any(at.drive == number for at in call.results):
            assert call.outcome == "cancelled"
        elif drove.result is not None:
            assert card in drove.shown
