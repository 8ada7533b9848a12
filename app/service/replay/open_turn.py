"""What a run's events say of the turn that is open: what its limits have counted so far.

A turn that goes on in another process counts on from here (turn.md 3.3, 3.7). A pause ends a turn,
and the next one counts anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.turn.texts import RESERVED
from app.turn.transcript import TurnSoFar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_DENIALS: Final = frozenset({"denied", "expired"})


@dataclass(slots=True)
class OpenTurn:
    """Folds replies, settled calls and pauses.

    The calls at hand may have been emitted in an earlier turn: only those of this one can repeat
    what was denied in it, and only those make one of its steps malformed.
    """

    _row: int = 0
    _is_malformed: bool = False
    _repeats: int = 0
    _is_repeated: bool = False
    _calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _is_own: bool = False
    _denied: dict[tuple[str, bytes], str] = field(default_factory=dict)
    _recovered: tuple[str, ...] | None = None

    def replied(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """A step begins to be carried out."""
        self._row = self._row + 1 if self._is_malformed else 0
        self._is_malformed = self._is_repeated = False
        self._calls = {call["call_id"]: call for call in calls}
        self._is_own = True

    def settled(self, data: Mapping[str, Any]) -> None:
        """A call has a result without having run."""
        call = self._calls.get(data["call_id"])
        if call is None:
            return
        if data["outcome"] in _DENIALS:
            self._refused(call, data["result"])
        elif call["args"] is None:
            # Whatever its result says: a reserved name out of use has one of its own.
            self._is_malformed = self._is_own
        elif data["outcome"] == "unknown_tool" and self._is_own and call["tool"] not in RESERVED:
            # The hatch was tried first, if it was on; that it found nothing is no event.
            self._recovered = self._recovered or ()

    def missed(self, offered: Sequence[str]) -> None:
        """The escape hatch has put tools on offer for the rest of the turn."""
        self._recovered = tuple(offered)

    def paused(self) -> None:
        """The turn is over; its open calls are left to the next one."""
        self._row = self._repeats = 0
        self._is_malformed = self._is_repeated = self._is_own = False
        self._denied = {}
        self._recovered = None

    def so_far(self, unanswered: Collection[str]) -> TurnSoFar:
        """What was counted, the step included whose `unanswered` calls are carried out next."""
        is_malformed = self._is_malformed or (
            self._is_own and any(self._calls[one]["args"] is None for one in unanswered)
        )
        return TurnSoFar(
            malformed_steps=self._row + 1 if is_malformed else 0,
            denial_reprompts=self._repeats,
            denied=dict(self._denied),
            recovered=self._recovered,
        )

    def _refused(self, call: Mapping[str, Any], result: str) -> None:
        if not self._is_own:
            self._denied[call["tool"], call["args_canonical"].encode()] = result
        elif not self._is_repeated:
            self._repeats += 1
            self._is_repeated = True
