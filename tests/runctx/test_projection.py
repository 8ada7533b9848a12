"""What a prompt holds of skills (run-context.md 3.5, 3.6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from app.runctx.projection import project_skills_context, project_skills_directory
from app.runctx.skill import RankedSkill, SkillView
from tests.runctx.skills import skill

BARE = SkillView(name="bare")
FULL = SkillView(name="deploy", title="Deploy", trigger="On release", task_type="ops", pinned=True)
# Written by hand, from run-context.md 3.6.
DIRECTORY = [
    {
        "name": "deploy",
        "title": "Deploy",
        "trigger": "On release",
        "task_type": "ops",
        "pinned": True,
    },
    {"name": "bare", "pinned": False},
]


def test_nothing_projects_to_no_block() -> None:
    """C41."""
    assert project_skills_context(None) is None
    assert project_skills_context([]) is None
    assert project_skills_directory(None) is None
    assert project_skills_directory([]) is None


def test_a_bare_ranked_skill_has_its_name_and_title_alone() -> None:
    """C42."""
    full = RankedSkill(skill=skill(description="How", steps=("a", "b")), score=1.0, path="exact")
    bare = RankedSkill(skill=skill("bare", steps=()), score=0.5, path="text")
    assert project_skills_context([full, bare]) == [
        {"name": "deploy", "title": "", "description": "How", "steps": ["a", "b"]},
        {"name": "bare", "title": ""},
    ]


def test_a_directory_says_pinned_always_and_leaves_out_what_is_empty() -> None:
    """C43."""
    assert project_skills_directory([FULL, BARE]) == DIRECTORY


def test_shared_views_project_alike_however_many_ask() -> None:
    """C44, for the directory."""
    views = [FULL, BARE]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(project_skills_directory, views) for _ in range(128)]
    assert all(one.result() == DIRECTORY for one in asked)
    assert views == [FULL, BARE]
