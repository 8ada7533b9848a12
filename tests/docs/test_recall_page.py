"""docs/benchmarks.md: what it says of recall by meaning is what its questions give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.providers.embedding import ContractEmbedder
from app.providers.wordllama import WordLlamaVectors
from bench.recall import by_meaning, by_words
from bench.recall_pairs import ACROSS, BY_LANGUAGE, PAIRS

if TYPE_CHECKING:
    from app.store.open import Store

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def row() -> list[str]:
    """The row of the table, cell by cell."""
    [line] = [one for one in PAGE.read_text().splitlines() if one.startswith("| recall@5,")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.postgres
async def test_recall_is_what_the_page_says_and_full_text_is_below_it(store: Store) -> None:
    meaning = await by_meaning(store.pool, ContractEmbedder(WordLlamaVectors()))
    words = await by_words(store.pool)
    assert row() == [
        f"recall@5, {len(PAIRS)} questions",
        f"{meaning:.2f}",
        f"{words:.2f}",
        "",
    ]
    assert words < 0.5
    assert meaning >= 0.75


def test_there_are_sixty_questions_in_nine_languages() -> None:
    """None is in its turn's own words: the longer words that both have are less than half."""
    assert len(PAIRS) >= 60
    assert len({turn for _, turn in PAIRS}) == len({asked for asked, _ in PAIRS}) == len(PAIRS)
    assert len(BY_LANGUAGE.keys() - {ACROSS}) == 9
    assert len(BY_LANGUAGE[ACROSS]) >= 4
    quoted = [asked for asked, turn in PAIRS if shared(asked, turn) > 0.5]
    assert quoted == []


def shared(asked: str, turn: str) -> float:
    """How many of a question's longer words its turn has as well."""
    words, told = longer_words(asked), longer_words(turn)
    return len(words & told) / max(1, len(words))


def longer_words(text: str) -> set[str]:
    words = "".join(one if one.isalpha() else " " for one in text.casefold()).split()
    return {word for word in words if len(word) > 3}
