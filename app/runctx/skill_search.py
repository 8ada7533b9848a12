"""How a search ranks skills: by name, else by the place full text gives them. Pure.

Nothing that is found in the text of a skill comes near what is found in a name (run-context.md 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.runctx.skill import MatchPath, SkillCard

# Reciprocal-rank fusion: a skill's score is the sum of 1 / (K + place) over the rankings.
K: Final = 60
BEST_BY_TEXT: Final = 0.80

Ranked = tuple["SkillCard", float, "MatchPath"]


def ranked(query: str, cards: Iterable[SkillCard], by_text: Sequence[str]) -> list[Ranked]:
    """The skills that match, best first, equal ones by name; `by_text` are names, best first."""
    all_cards = list(cards)
    names = {card.name for card in all_cards}
    order = [name for name in by_text if name in names]
    places = {name: place for place, name in enumerate(order, start=1)}
    found: list[Ranked] = []
    for card in all_cards:
        if (by_name := _by_name(query, card.name)) is not None:
            found.append((card, *by_name))
        elif card.name in places:
            found.append((card, text_score(places[card.name]), "text"))
    return sorted(found, key=lambda one: (-one[1], one[0].name))


def text_score(place: int) -> float:
    """The score of a place, from 1, in the one ranking by text."""
    return round(BEST_BY_TEXT * (K + 1) / (K + place), 4)


def _by_name(query: str, name: str) -> tuple[float, MatchPath] | None:
    asked, called = query.strip().casefold(), name.casefold()
    if asked == called:
        return 1.0, "exact"
    if called.startswith(asked):
        return 0.90, "prefix"
    return (0.85, "name") if asked in called else None
