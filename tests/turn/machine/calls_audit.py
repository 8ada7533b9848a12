"""The invariants about what becomes of calls and of their results (turn.md 11)."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

from app.engine.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
)
from app.log.calls import (
    CallGated,
    DelegateStarted,
    MessageAssistant,
    RetrievalMissed,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.log.runs import StepStarted
from app.policy.capability import ALL_CAPABILITIES
from app.policy.profile import Origin, ToolProfile
from app.policy.taint import Trust
from app.turn.result import EndedBy
from tests.turn.machine.audit import Audited, holds
from tests.turn.machine.house import GIVES_ACCESS, OF_WORKERS, STRANGER, TOOLS, nearest
from tests.turn.machine.law import BASE, NOTHING, is_harmless
from tests.turn.machine.runlog import thread_of
from tests.turn.machine.script import (
    ASK,
    BAD_DELEGATIONS,
    DELEGATE,
    GOOD_QUESTIONS,
    MALFORMED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.messages import Message, ToolResultContent
    from app.turn.ports import ModelRequest
    from tests.turn.machine.history import At, Call
    from tests.turn.machine.world import Drive


class CallsAudit(Audited):
    """Emitted calls, their results, and what they bring in."""

    @holds
    def what_is_malformed_asks_nobody(self) -> None:
        """I5: an invalid question or a malformed call pauses nothing."""
        asked = {card.call_id for card in self.world.people.cards}
        asked |= {one.call_id for one in self.world.people.questions}
        for call in self.world.history.calls.values():
            text, outcome = self.world.sent(call), call.outcome
            is_question = call.tool == ASK and text not in GOOD_QUESTIONS
            is_delegation = call.tool == DELEGATE and text in BAD_DELEGATIONS
            if not (text in MALFORMED or is_question or is_delegation):
                continue
            assert call.call_id not in asked
            assert not call.of(CallGated)
            assert not call.starts
            assert not call.of(DelegateStarted)
            expected = {"malformed_arguments" if text in MALFORMED else "invalid_arguments"}
            if not self._offers(call):
                expected = {"unknown_tool"}
            elif is_delegation and text not in MALFORMED:
                expected = {"invalid_arguments", "unknown_delegate_target"}
            assert not call.results or outcome in {*expected, "cancelled"}

    def _offers(self, call: Call) -> bool:
        """Whether a reserved name is in use where it was called; any other tool always is."""
        if call.tool == ASK:
            return not call.thread and not self.world.kind.unattended
        if call.tool == DELEGATE:
            return not call.thread and self.world.kind.staffed
        return call.tool in TOOLS or call.tool == "nope"

    @holds
    def every_call_has_one_result_before_the_next_model_call(self) -> None:
        """I6: and no result is without a call."""
        emitted: dict[str, Counter[str]] = {}
        for event in self.world.events:
            payload, thread = event.payload, thread_of(event)
            waiting = emitted.setdefault(thread, Counter())
            if isinstance(payload, StepStarted):
                assert set(waiting.values()) <= {1}, "the model is asked before a call is answered"
            elif isinstance(payload, MessageAssistant):
                parts = [part for part in payload.content if part.type == "tool_call"]
                waiting.update({part.call_id or "": 0 for part in parts})
            elif event.type in {"tool.completed", "tool.failed", "tool.settled"}:
                call_id = getattr(payload, "call_id", "")
                assert call_id in waiting, "a result without a call"
                waiting[call_id] += 1
                assert waiting[call_id] == 1, "a call has two results"
        for drove in self.latest():
            if drove.result is not None and drove.result.ended_by in ENDS:
                assert all(call.results for call in self.world.history.calls.values())

    @holds
    def the_hatch_fires_once_a_turn_and_widens_no_scope(self) -> None:
        """I9: what it finds is offered, and meets the gate when it is called again."""
        fired = Counter[int]()
        turn = 0
        for number, drove in enumerate(self.world.drives):
            for call, at in self.stated_in(number):
                if isinstance(at.payload, RetrievalMissed):
                    fired[turn] += 1
                    assert self.world.kind.hatch
                    assert not call.thread
                    assert call.drive == number, "a call that was left open is no search"
                    assert at.payload.offered == (nearest(call.tool),)
                    # A process that dies right here leaves the call behind, for the gate to judge.
                    ended = [one for one in call.results if one.drive == number]
                    assert not call.of(ToolStarted, number)
                    assert not ended or call.outcome == "tools_now_available"
            turn += drove.result is not None
            for ran, _ in drove.taken.runs:
                scope = OF_WORKERS if "/" in ran.call_id else TOOLS
                assert ran.name in scope
        assert set(fired.values()) <= {1}

    @holds
    def taint_only_removes_and_lasts(self) -> None:
        """I10: it survives restarts and delegation, in both directions."""
        threads = self.world.history.threads
        for index, event in enumerate(self.world.events):
            thread = threads[thread_of(event)]
            if isinstance(event.payload, StepStarted):
                tainted = thread.is_tainted(index)
                assert event.payload.tainted == tainted
                lost = {"arbitrary-egress", "mutate-external"} if tainted else set()
                assert set(event.payload.granted) == {one.value for one in BASE} - lost
            elif isinstance(event.payload, DelegateStarted):
                tainted = threads[""].is_tainted(index)
                assert (event.trust is Trust.QUARANTINED_CONTENT) == tainted
        for call in self.world.history.calls.values():
            if call.tool == DELEGATE and call.of(DelegateStarted):
                worker = threads[call.call_id]
                for at in call.results:
                    is_tainted = at.trust is Trust.QUARANTINED_CONTENT
                    assert is_tainted == worker.is_tainted(at.index)

    @holds
    def unknown_means_everything_required_and_untrusted(self) -> None:
        """I11: nobody's tool never runs, a stranger's asks and taints."""
        assert STRANGER.ingests_untrusted
        for call in self.world.history.calls.values():
            scope = OF_WORKERS if call.thread else TOOLS
            if call.tool not in scope:
                assert not call.starts
                assert not call.of(CallGated)
            for at in call.of(ToolStarted):
                by = getattr(at.payload, "covered_by", None)
                assert call.tool != "stranger" or (by is not None and by.kind == "decision")
            for at in call.results:
                ran = not isinstance(at.payload, ToolSettled)
                policy = self.world.drives[at.drive].there.policy
                if ran and call.tool != DELEGATE and policy.ingests(call.tool):
                    assert at.trust is Trust.QUARANTINED_CONTENT
                elif ran and call.tool != DELEGATE:
                    assert at.trust is Trust.UNSPECIFIED

    @holds
    def annotations_never_lower_a_requirement(self) -> None:
        """I12: a connector that declares itself anew only ever requires more.

        What nobody registered requires everything, whatever it says of itself.
        """
        assert STRANGER.required() == ALL_CAPABILITIES
        policies = [drove.there.policy for drove in self.world.drives]
        for policy in [*policies, self.world.policy]:
            assert policy.feed.origin is Origin.REGISTERED_CONNECTOR
            grown = GIVES_ACCESS if "feed" in policy.grown else NOTHING
            assert policy.feed.required() | grown == policy.required("feed")
            assert policy.feed.ingests_untrusted == policy.ingests("feed")
        feeds = [policy.feed.required() for policy in [*policies, self.world.policy]]
        assert all(before <= after for before, after in pairwise(feeds))
        for reads, harms, lets_in in product((False, True), repeat=3):
            claim = ToolProfile(Origin.LOCAL_SANDBOX, reads, harms, lets_in)
            assert self.world.policy.feed.merged(claim).required() >= feeds[-1]

    @holds
    def nothing_with_an_effect_runs_beside_a_question(self) -> None:
        """I14, F28: while a person decides, nothing runs that no person has ordered."""
        number = len(self.world.drives) - 1
        for drove in self.latest():
            if drove.result is None or drove.result.ended_by is not EndedBy.PAUSE:
                continue
            for batch in self._asking(drove):
                for call in batch:
                    for at in call.stated:
                        if at.drive == number:
                            assert self._was_ordered(call, at, drove)

    def _asking(self, drove: Drive) -> Iterator[list[Call]]:
        """The batches of which a call of their own waits for a person."""
        assert drove.result is not None
        calls = self.world.history.calls
        waiting = [one.call_id for one in drove.result.pending_approvals]
        waiting += [one.call_id for one in drove.result.pending_questions]
        for name, thread in self.world.history.threads.items():
            if any(calls[call_id].thread == name for call_id in waiting):
                yield thread.batches[-1]

    def _was_ordered(self, call: Call, at: At, drove: Drive) -> bool:
        if isinstance(at.payload, DelegateStarted):
            return False
        if not isinstance(at.payload, ToolStarted):
            return True
        before = call.starts[: at.payload.attempt - 1]
        given = {one.covered_by.kind for one in before if one.covered_by is not None}
        is_again = bool(given & {"decision", "session"}) and TOOLS[call.tool].idempotent
        is_ordered = self._is_ordered(call, at.payload, drove)
        return is_ordered or is_again or is_harmless(call.tool, drove.there.policy)

    def _is_ordered(self, call: Call, start: ToolStarted, drove: Drive) -> bool:
        """Whether a person decided on this call, or its open request was answered for them."""
        asked = {card.call_id for card in self.world.people.cards}
        by = start.covered_by.kind if start.covered_by is not None else None
        in_advance = not call.of(CallGated) and call.drive == 0 and drove is self.world.drives[0]
        return by == "decision" or (by == "session" and call.call_id in asked) or in_advance

    @holds
    def nothing_with_an_effect_runs_again_silently(self) -> None:
        """I15: only a decision to run it again starts such a call a second time."""
        for call in self.world.history.calls.values():
            for at in call.of(ToolStarted):
                start = at.payload
                assert isinstance(start, ToolStarted)
                policy = self.world.drives[at.drive].there.policy
                if start.attempt == 1 or is_harmless(call.tool, policy):
                    continue
                if TOOLS[call.tool].idempotent and start.covered_by is None:
                    continue
                assert start.covered_by is not None
                card = self.world.people.card_of(start.covered_by.id)
                assert card.pending.outcome_unknown
            assert [one.attempt for one in call.starts] == [*range(1, len(call.starts) + 1)]

    @holds
    def results_stand_in_source_order(self) -> None:
        """I22: in the log and before the model, whatever came back first."""
        for thread in self.world.history.threads.values():
            for batch in thread.batches:
                for one, later in combinations(batch, 2):
                    if _ran_together(one, later):
                        assert one.results[0].index < later.results[0].index
        for drove in self.latest():
            for model in ("scripted", "small"):
                asked = [one for one in drove.taken.requests if one.model == model]
                for request in asked[-1:]:
                    threads = self.world.history.threads
                    names = [name for name in threads if bool(name) == (model == "small")]
                    assert any(self._answers(request, name, drove.ended) for name in names)

    def _answers(self, request: ModelRequest, name: str, before: int) -> bool:
        """Whether the request shows the results of that thread, call by call."""
        shown = list(_batches(request.messages))
        kept = self.world.history.threads[name].batches[: len(shown)]
        expected = [[self._result(call, before) for call in batch] for batch in kept]
        return shown == expected

    def _result(self, call: Call, before: int) -> tuple[str, object]:
        for at in call.results:
            if at.index < before:
                text = getattr(at.payload, "result", None)
                if isinstance(at.payload, ToolFailed):
                    text = at.payload.error
                return call.tool, _value(str(text))
        return call.tool, None


def _ran_together(*calls: Call) -> bool:
    """Whether, in one drive, each of them had been started before any had its result."""
    begun = [at for call in calls for at in (*call.of(ToolStarted), *call.of(DelegateStarted))[-1:]]
    ended = [at for call in calls for at in call.results]
    return (
        len(begun) == len(ended) == len(calls)
        and len({at.drive for at in (*begun, *ended)}) == 1
        and max(at.index for at in begun) < min(at.index for at in ended)
    )


def _batches(messages: Sequence[Message]) -> Iterator[list[tuple[str, object]]]:
    """The results behind each message that calls, in the order of a request."""
    for index, message in enumerate(messages):
        if not isinstance(message, AssistantMessage):
            continue
        if any(isinstance(part, ToolCall) for part in message.content):
            answer = messages[index + 1]
            assert isinstance(answer, UserMessage)
            parts = [part for part in answer.content if isinstance(part, ToolResult)]
            yield [(part.name, _seen(part.content)) for part in parts]


def _seen(content: tuple[ToolResultContent, ...]) -> object:
    match content:
        case (ToolResultText(text=text),):
            return _value(text)
        case (ToolResultJson(value=value),):
            return value
        case _:
            raise AssertionError(content)


def _value(text: str) -> object:
    """A result as a value, so that its spelling does not count."""
    try:
        return json.loads(text)
    except ValueError:
        return text


ENDS = {EndedBy.ANSWER, EndedBy.STEP_CAP, EndedBy.DENIAL_CAP}
