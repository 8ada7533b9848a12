"""What a run's events say of its questions: which wait for answers, which were settled since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class OpenQuestions:
    """Folds `question.asked` and `question.answered`; `settled` are those of the latest pause."""

    settled: list[str] = field(default_factory=list)
    _lacking: dict[str, int] = field(default_factory=dict)
    _latest: dict[str, str] = field(default_factory=dict)

    def asked(self, data: dict[str, Any]) -> None:
        """A call asks; in place of whatever it asked before."""
        self._lacking[data["id"]] = len(data["questions"])
        self._latest[data["call_id"]] = data["id"]

    def answered(self, data: dict[str, Any]) -> None:
        """Some answers were given, or it is over without them."""
        question = data["question_id"]
        left = self._lacking.pop(question, 0) - len(data["answers"])
        if data["outcome"] == "answered" and left > 0:
            self._lacking[question] = left
        else:
            self.settled.append(question)

    def of_call(self, call_id: str) -> str | None:
        """The question of that call, if it waits for answers."""
        question = self._latest.get(call_id)
        return question if question in self._lacking else None
