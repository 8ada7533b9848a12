"""The answers a turn has (turn.md 7.2): each is to one question of one call of one turn.

An answer carries no authority and is not used up: a call that is answered in part waits on, and the
turn that resumes it is given the same answers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.engine.json.arguments import Arguments
    from app.turn.options import VerifiedAnswer
    from app.turn.state.call import OpenCall


class AnswerBook:
    """The verified answers of a turn. Raises ValueError for two answers to one question."""

    def __init__(self, answers: Iterable[VerifiedAnswer]) -> None:
        self._given: dict[tuple[str, str, int], VerifiedAnswer] = {}
        for answer in answers:
            key = (answer.turn_id, answer.call_id, answer.index)
            if key in self._given:
                raise ValueError(f"expected one answer per question, found two for {key!r}")
            self._given[key] = answer
        self._met: set[tuple[str, str]] = set()

    def of(self, call: OpenCall, args: Arguments) -> dict[int, VerifiedAnswer]:
        """The answers to the questions of this very call, by index."""
        self._met.add((call.turn_id, call.call_id))
        return {
            answer.index: answer
            for answer in self._given.values()
            if (answer.turn_id, answer.call_id) == (call.turn_id, call.call_id)
            and answer.args_sha256 == args.sha256
        }

    def unmet(self) -> Iterator[VerifiedAnswer]:
        """The answers whose call was not among those that were open."""
        for answer in self._given.values():
            if (answer.turn_id, answer.call_id) not in self._met:
                yield answer
