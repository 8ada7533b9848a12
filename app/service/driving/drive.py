"""One lease being driven: what its turn starts from, and what its closing needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.ids import Identity
from app.log.payload import UsageTotals
from app.service.agents.delegates import descriptors
from app.service.driving.closing import Turn
from app.service.driving.mutations import SignedMutations
from app.turn.options import RunTurnOptions
from app.turn.ports import CacheHint

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.records import Lease
    from app.service.agents.binding import Bound
    from app.service.clock import Clock
    from app.service.driving.loading import Loaded
    from app.service.driving.recorder import TurnRecorder
    from app.service.replay.fold import Standing
    from app.service.statements import Statements


@dataclass(frozen=True, slots=True)
class Drive:
    """A lease, the turn driven under it, since when, and from what."""

    lease: Lease
    turn_id: str
    began: datetime
    loaded: Loaded

    @property
    def bound(self) -> Bound:
        """The run's agent, ready to work."""
        return self.loaded.bound

    @property
    def standing(self) -> Standing:
        """Where the run stands."""
        return self.loaded.standing

    @property
    def identity(self) -> Identity:
        """Whose memory and skills the run works with."""
        run = self.lease.run
        return Identity(self.lease.tenant, run.principal, run.conversation_id, run.id)

    def options(
        self,
        recorder: TurnRecorder,
        statements: Statements,
        *,
        clock: Clock,
        default_max_steps: int | None,
        steps_before: int,
    ) -> RunTurnOptions:
        """What the turn may do, how far it may go, and what people said."""
        run, spec, loaded = self.lease.run, self.bound.spec, self.loaded
        cap = run.max_steps or spec.max_steps
        return RunTurnOptions(
            approval_decisions=loaded.consents.unused(self.standing.requests().values()),
            max_steps=None if cap is None else max(1, cap - steps_before),
            default_max_steps=default_max_steps,
            escape_hatch=spec.escape_hatch,
            stream_tx=recorder,
            native_search_allowed=spec.native_search,
            session_approved_tools=loaded.consents.standing,
            remembered_grants=loaded.grants,
            question_answers=loaded.answers,
            unattended=run.unattended,
            escalate_sandbox_denials=spec.escalate_sandbox_denials,
            untrusted_context_seed=self.lease.tainted or loaded.context.is_tainted,
            dispatch_recorder=SignedMutations(
                recorder, statements, self.lease, turn_id=self.turn_id
            ),
            clock=clock,
            turn_start_unix_ms=_unix_ms(self.standing.turn_began or self.began),
            cache_hint=CacheHint(spec.cache_hint),
            delegate_descriptors=descriptors(self.bound),
            delegate_max_fanout=spec.delegate_max_fanout,
            delegate_turn_budget=spec.delegate_turn_budget,
        )

    def turn(self, recorder: TurnRecorder) -> Turn:
        """The turn as it is closed, once it has ended."""
        return Turn(
            run=self.lease.run,
            turn_id=self.turn_id,
            bound=self.bound,
            schema=self.loaded.schema,
            machine=self.standing.run,
            executed=self.standing.executed | recorder.executed,
            asked=self.loaded.asked,
            questions=self.standing.questions,
            outdated=self.loaded.consents.outdated,
            worked=(
                *map(UsageTotals.model_validate, self.standing.worker_replies),
                *recorder.worked,
            ),
        )


def _unix_ms(at: datetime) -> int:
    """Milliseconds since 1970, cut as the log cuts them."""
    return int(at.timestamp()) * 1000 + at.microsecond // 1000
