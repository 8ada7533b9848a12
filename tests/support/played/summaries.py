"""A summariser that answers as a test says, and otherwise as the one without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.providers.summaries import ExtractSummarizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity


class PlayedSummaries:
    """The ports `Summarizers` and `Summarizer` in one; `asked` is what it was given."""

    model = "played"

    def __init__(self) -> None:
        self.answers: list[str | BaseException] = []
        self.asked: list[tuple[str, list[str]]] = []

    def of(self, agent_model: str) -> PlayedSummaries:
        return self

    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str:
        self.asked.append((prior, list(items)))
        if not self.answers:
            return await ExtractSummarizer().summarize(prior, items, identity=identity)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer
