"""The ladder of `skill_get` (run-context.md 6)."""

from __future__ import annotations

import pytest

from app.runctx.skill import SkillTooLarge
from app.runctx.skills.budget import estimate, fitted
from tests.runctx.skills.shelf import skill

# 8 for the skill, 2 for its name, 4 for `When to deploy`; the rest is 40 code points a field.
STEPS = tuple(letter * 40 for letter in "abcde")
DEPLOY = skill(steps=STEPS, preconditions=("p" * 40,), failure_modes=("f" * 40,))


def test_a_skill_costs_a_quarter_of_its_code_points_rounded_up_by_field() -> None:
    assert estimate([DEPLOY]) == 8 + 2 + 4 + 50 + 10 + 10
    assert estimate([skill(steps=("é" * 5, "b"))]) == 8 + 2 + 4 + 2


def test_optional_fields_go_first_then_steps_after_the_third() -> None:
    """C136."""
    [full] = fitted([DEPLOY], 84)
    assert full == DEPLOY
    [summarised] = fitted([DEPLOY], 83)
    assert (summarised.body.preconditions, summarised.body.failure_modes) == ((), ())
    assert summarised.body.steps == STEPS
    [shortest] = fitted([DEPLOY], 63)
    assert shortest.body.steps == STEPS[:3]
    assert DEPLOY.body.steps == STEPS


def test_what_fits_in_no_form_is_refused_whole() -> None:
    """C135."""
    with pytest.raises(SkillTooLarge, match="44 tokens"):
        fitted([DEPLOY], 43)
    with pytest.raises(SkillTooLarge, match="88 tokens"):
        fitted([DEPLOY, DEPLOY], 87)


def test_a_budget_is_for_all_skills_together() -> None:
    assert [one.body.steps for one in fitted([DEPLOY, skill()], 100)] == [STEPS, ("Do it.",)]
    assert fitted([], 1) == []
