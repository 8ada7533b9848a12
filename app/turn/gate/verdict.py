"""What classification makes of a call: a result without an execution, a question, or a start.

A verdict carries the facts that go into the log when it is acted on, never before: a verdict that
is replaced, because a sibling brought in untrusted content, leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.policy.taint import Trust

if TYPE_CHECKING:
    from app.engine.json.arguments import Arguments
    from app.log.payload import CoveredBy, Payload
    from app.turn.options import DelegateDescriptor
    from app.turn.ports import DispatchInjectContext, DispatchModify
    from app.turn.result import (
        GrantReplayClear,
        PendingApproval,
        PendingQuestion,
        UnattendedDenial,
    )
    from app.turn.state.call import OpenCall
    from app.turn.transcript import StoredWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """The call gets this result and runs nothing. `note` is what a person who denied it adds.

    `trust` is the tag of the result: answers of people have one, what the house says has none.
    """

    call: OpenCall
    result: str
    outcome: str
    note: str = ""
    facts: tuple[Payload, ...] = ()
    repeats_denial: bool = False
    trust: Trust = Trust.UNSPECIFIED
    unattended: UnattendedDenial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The call waits for a person. `is_fresh`: the gate has just said so, and may say it anew."""

    call: OpenCall
    approval: PendingApproval
    facts: tuple[Payload, ...] = ()
    is_fresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AskQuestions:
    """The call waits for answers to these of its questions; nothing that happens changes them."""

    call: OpenCall
    questions: tuple[PendingQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The call is to run with `args`.

    `is_ordered`: a person decided on this very call, so it runs even while others wait.
    `is_read_only`: it may run while a person decides on a sibling.
    """

    call: OpenCall
    args: Arguments
    is_ordered: bool
    is_read_only: bool
    covered_by: CoveredBy | None = None
    sandbox_mode: str | None = None
    is_edited: bool = False
    note: str = ""
    mutation: DispatchModify | DispatchInjectContext | None = None
    replay: GrantReplayClear | None = None
    facts: tuple[Payload, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """A worker is to work on `task`; one that is `stored` goes on where it stands."""

    call: OpenCall
    args: Arguments
    descriptor: DelegateDescriptor
    task: str
    context: str | None
    stored: StoredWorker | None
    note: str = ""
    facts: tuple[Payload, ...] = ()
    is_read_only: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether it goes on while a person decides on a sibling: it has begun already."""
        return self.stored is not None


Verdict = Settle | Ask | AskQuestions | Start | Delegation
