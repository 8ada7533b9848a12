"""How a search ranks skills: by name, else by their places in text and in meaning. Pure.

Nothing that is found in the text of a skill comes near what is found in a name (run-context.md 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from app.runctx.skill import MatchPath, SkillCard

# Reciprocal-rank fusion: a skill's score is the sum of 1 / (K + place) over the rankings.
K: Final = 60
BEST_BY_TEXT: Final = 0.80

Ranked = tuple["SkillCard", float, "MatchPath"]


def ranked(
    query: str,
    cards: Iterable[SkillCard],
    by_text: Sequence[str],
    by_meaning: Sequence[str] | None = None,
) -> list[Ranked]:
    """The skills that match, best first, equal ones by name.

    The rankings are names, best first; without an embedder there is none by meaning.
    """
    all_cards = list(cards)
    names = {card.name for card in all_cards}
    rankings = [_places(by_text, names)]
    path: MatchPath = "text"
    if by_meaning is not None:
        rankings.append(_places(by_meaning, names))
        path = "hybrid"
    found: list[Ranked] = []
    for card in all_cards:
        places = [ranking[card.name] for ranking in rankings if card.name in ranking]
        if (by_name := _by_name(query, card.name)) is not None:
            found.append((card, *by_name))
        elif places:
            found.append((card, fused(places, rankings=len(rankings)), path))
    return sorted(found, key=lambda one: (-one[1], one[0].name))


def fused(places: Iterable[int], *, rankings: int) -> float:
    """The score of places, from 1; the first place in every ranking has the most there is."""
    most = rankings / (K + 1)
    return round(BEST_BY_TEXT * sum(1 / (K + place) for place in places) / most, 4)


def _places(order: Sequence[str], names: Collection[str]) -> dict[str, int]:
    """A place counts among what may be seen."""
    seen = [name for name in order if name in names]
    return {name: place for place, name in enumerate(seen, start=1)}


def _by_name(query: str, name: str) -> tuple[float, MatchPath] | None:
    asked, called = query.strip().casefold(), name.casefold()
    if asked == called:
        return 1.0, "exact"
    if called.startswith(asked):
        return 0.90, "prefix"
    return (0.85, "name") if asked in called else None
