"""Agent Skills folders as skills (run-context.md 6)."""

from __future__ import annotations

import pytest

from app.runctx.skills.folder import FolderDefect, skill_of

BODY = "\n# PDF\nhello\n## Preconditions\nx\n## Do\ny\n## failure modes\nz\n"
FRONT = """---
name: pdf-fill
description: Fill forms. Use when asked.
license: MIT
compatibility: any
allowed-tools: Bash(git:*) Read
metadata:
  title: PDF
  task_type: office
  tags: [a, b, a]
  required_tools: files_read, files_write
  pinned: true
  author: bob
---
"""


def test_a_folder_is_one_skill() -> None:
    """C139, C141."""
    kept = skill_of("pdf-fill", {"SKILL.md": (FRONT + BODY).encode(), "ref/a.txt": b"hi"})
    head, body = kept.head, kept.body
    assert (head.name, head.title, head.task_type) == ("pdf-fill", "PDF", "office")
    assert (head.origin, head.scope) == ("pack", "tenant")
    assert head.trigger == body.description == "Fill forms. Use when asked."
    assert (head.tags, head.required_tools) == (("a", "b"), ("files_read", "files_write"))
    assert (head.required_namespaces, head.required_tags) == ((), ())
    assert head.extra == {
        "pinned": True,
        "author": "bob",
        "license": "MIT",
        "compatibility": "any",
        "allowed-tools": "Bash(git:*) Read",
    }
    assert body.steps == ("\n# PDF\nhello\n", "## Do\ny\n")
    assert body.preconditions == ("## Preconditions\nx\n",)
    assert body.failure_modes == ("## failure modes\nz\n",)
    assert kept.files == {"ref/a.txt": b"hi"}


@pytest.mark.parametrize("body", ["", "\n \n", "## Preconditions\nx\n"])
def test_a_folder_without_steps_has_its_description_for_one(body: str) -> None:
    kept = skill_of("pdf-fill", {"SKILL.md": (FRONT + body).encode()})
    assert kept.body.steps == ("Fill forms. Use when asked.",)


def least(**members: str) -> str:
    lines = {"name": "a-b", "description": "d"} | members
    return "---\n" + "".join(f"{name}: {value}\n" for name, value in lines.items()) + "---\n"


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("a", least()),
        ("a--b", least(name="a--b")),
        ("-a", least(name="-a")),
        ("a-", least(name="a-")),
        ("A-b", least(name="A-b")),
        ("a" * 65, least(name="a" * 65)),
        ("a-b", least(name="[a-b]")),
        ("a-b", least(description="''")),
        ("a-b", least(description="x" * 1025)),
        ("a-b", least(compatibility="x" * 501)),
        ("a-b", least(compatibility="''")),
        ("a-b", least(metadata="x")),
        ("a-b", least(metadata="{tags: 7}")),
        ("a-b", least(metadata="{tags: [[a]]}")),
        ("a-b", least(metadata="{title: [a]}")),
        ("a-b", least(tools="x")),
        ("a-b", "# no front matter"),
    ],
)
def test_a_folder_that_is_no_skill_is_refused(folder: str, text: str) -> None:
    """C140."""
    with pytest.raises(FolderDefect) as caught:
        skill_of(folder, {"SKILL.md": text.encode()})
    assert caught.value.entry == f"{folder}/SKILL.md"


def test_a_folder_needs_its_file_in_utf_8() -> None:
    with pytest.raises(FolderDefect, match=r"has no SKILL\.md"):
        skill_of("a-b", {"skill.md": b""})
    with pytest.raises(FolderDefect, match="UTF-8"):
        skill_of("a-b", {"SKILL.md": least().encode() + b"\xff"})
