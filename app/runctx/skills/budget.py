"""The ladder of `skill_get`: what is left out until the skills fit the budget. Pure.

Full, then without preconditions and failure modes, then with the first steps alone. What fits no
form is refused whole, and the stored skill is never changed (run-context.md 6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from app.runctx.skill import SkillTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.runctx.skill import Skill

KEPT_STEPS: Final = 3
TOKENS_PER_SKILL: Final = 8
_CHARS_PER_TOKEN: Final = 4


def fitted(skills: Sequence[Skill], max_tokens: int) -> list[Skill]:
    """The skills in the fullest form that fits as a whole. Raises SkillTooLarge."""
    forms = (list(skills), [_summarised(one) for one in skills], [_shortest(one) for one in skills])
    for form in forms:
        if estimate(form) <= max_tokens:
            return form
    least = estimate(forms[-1])
    raise SkillTooLarge(f"the shortest form takes {least} tokens, and max_tokens is {max_tokens}")


def estimate(skills: Iterable[Skill]) -> int:
    """Tokens: for each field its code points divided by four, rounded up, and 8 a skill."""
    return sum(TOKENS_PER_SKILL + sum(map(_tokens, _fields(skill))) for skill in skills)


def _fields(skill: Skill) -> Iterable[Sequence[str]]:
    head, body = skill.card.head, skill.body
    yield from ((text,) for text in (head.name, head.title, head.trigger, body.description))
    yield from (body.steps, body.preconditions, body.failure_modes)


def _tokens(texts: Iterable[str]) -> int:
    return -(-sum(map(len, texts)) // _CHARS_PER_TOKEN)


def _summarised(skill: Skill) -> Skill:
    return replace(skill, body=replace(skill.body, preconditions=(), failure_modes=()))


def _shortest(skill: Skill) -> Skill:
    summarised = _summarised(skill)
    return replace(
        summarised, body=replace(summarised.body, steps=summarised.body.steps[:KEPT_STEPS])
    )
