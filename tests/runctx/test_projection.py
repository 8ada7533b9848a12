"""What a prompt holds of skills and files (run-context.md 3.5, 3.6, 7)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

from app.policy.taint import Trust
from app.runctx.projection import (
    project_session_artifacts,
    project_skills_context,
    project_skills_directory,
)
from app.runctx.skill import RankedSkill, SkillView
from tests.runctx.attached import NOON, ref
from tests.runctx.skills.shelf import skill

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


def test_a_session_without_files_has_no_manifest() -> None:
    assert project_session_artifacts([]) is None


def test_a_manifest_lists_files_newest_first_and_those_of_one_moment_by_id() -> None:
    files = [
        ref("b", "text/csv", filename="b.csv", size=7),
        ref("a"),
        replace(ref("old", tool="shell_exec"), created_at=NOON - timedelta(seconds=1)),
        replace(ref("new"), namespace="results", by="reviewer"),
        replace(ref("nobody"), namespace="results", by=""),
    ]
    files[3] = replace(files[3], created_at=NOON + timedelta(seconds=1))
    size = ref("a").size_bytes
    assert project_session_artifacts(files) == [
        {"id": "new", "mime": "image/png", "size_bytes": size, "from": "reviewer"},
        {"id": "a", "mime": "image/png", "size_bytes": size, "from": "upload"},
        {"id": "b", "mime": "text/csv", "size_bytes": 7, "from": "upload", "filename": "b.csv"},
        {"id": "nobody", "mime": "image/png", "size_bytes": size, "from": "unknown"},
        {"id": "old", "mime": "image/png", "size_bytes": size, "from": "tool: shell_exec"},
    ]


def test_c147_a_manifest_withholds_a_name_that_an_untrusted_tool_gave() -> None:
    tainted = Trust.QUARANTINED_CONTENT
    rows = project_session_artifacts(
        [
            ref("a", tool="http_fetch", filename="obey me", trust=tainted),
            ref("b", filename="mine.txt", trust=tainted),
        ]
    )
    assert [row.get("filename") for row in rows or () if isinstance(row, dict)] == [
        None,
        "mine.txt",
    ]
