"""An Agent Skills folder as a skill: SKILL.md and the files beside it (run-context.md 6). Pure.

`allowed-tools` is kept as information. It grants nothing and filters nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.runctx.skill import NewSkill, SkillBody, SkillHead
from app.runctx.skills.front_matter import FrontMatterDefect, split_front_matter
from app.runctx.skills.markdown_sections import sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

SKILL_FILE: Final = "SKILL.md"
SKILL_NAME: Final = r"^(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*$"
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
MAX_TEXT: Final = 1024
MAX_WORDS: Final = 100
_NAME: Final = re.compile(SKILL_NAME)
_MEMBERS: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
_WORDS: Final = frozenset({"tags", "required_tools"})
_TEXTS: Final = frozenset({"title", "task_type"})


class FolderDefect(ValueError):
    """Why the folder is no skill: the file that is wrong, and half a sentence."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(problem)
        self.entry = entry


def skill_of(folder: str, files: Mapping[str, bytes]) -> NewSkill:
    """The skill of a folder; `files` are its contents by path. Raises FolderDefect."""
    entry = f"{folder}/{SKILL_FILE}"
    if (raw := files.get(SKILL_FILE)) is None:
        raise FolderDefect(folder, f"has no {SKILL_FILE}")
    try:
        front, body = split_front_matter(raw.decode())
        head, description = _head(folder, front)
    except UnicodeDecodeError:
        raise FolderDefect(entry, "is no text in UTF-8") from None
    except FrontMatterDefect as defect:
        raise FolderDefect(entry, str(defect)) from None
    others = {path: content for path, content in files.items() if path != SKILL_FILE}
    return NewSkill(head=head, body=_body(body, description), files=others)


def _head(folder: str, front: Mapping[str, JsonValue]) -> tuple[SkillHead, str]:
    if unknown := sorted(front.keys() - _MEMBERS):
        raise FrontMatterDefect(f"has the unknown member {unknown[0][:64]!r}")
    name = _text(front, "name", 64)
    if _NAME.fullmatch(name) is None or name != folder:
        raise FrontMatterDefect("has a name that is not its folder's, or not a skill's")
    description = _text(front, "description", MAX_DESCRIPTION)
    metadata = front.get("metadata", {})
    if not isinstance(metadata, dict):
        raise FrontMatterDefect("has metadata that are no mapping")
    head = SkillHead(
        name=name,
        trigger=description,
        origin="pack",
        scope="tenant",
        title=_text(metadata, "title", MAX_TEXT, needed=False),
        task_type=_text(metadata, "task_type", MAX_TEXT, needed=False),
        tags=_words(metadata, "tags"),
        required_tools=_words(metadata, "required_tools"),
        extra={
            **{key: value for key, value in metadata.items() if key not in _WORDS | _TEXTS},
            **_information(front),
        },
    )
    return head, description


def _information(front: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What is said of the skill and obeyed by nobody."""
    told: dict[str, JsonValue] = {}
    if "license" in front:
        told["license"] = _text(front, "license", MAX_TEXT)
    if "compatibility" in front:
        told["compatibility"] = _text(front, "compatibility", MAX_COMPATIBILITY)
    if isinstance(allowed := front.get("allowed-tools"), str):
        told["allowed-tools"] = _text(front, "allowed-tools", MAX_TEXT, needed=False)
    elif allowed is not None:
        told["allowed-tools"] = list(_words(front, "allowed-tools"))
    return told


def _body(text: str, description: str) -> SkillBody:
    pieces = sections(text) if text.strip() else []
    kinds: dict[str, list[str]] = {"": [], "preconditions": [], "failure modes": []}
    for piece in pieces:
        title = piece.title.strip().casefold()
        kinds[title if title in kinds else ""].append(piece.text)
    return SkillBody(
        steps=tuple(kinds[""]) or (description,),
        description=description,
        preconditions=tuple(kinds["preconditions"]),
        failure_modes=tuple(kinds["failure modes"]),
    )


def _text(members: Mapping[str, JsonValue], name: str, most: int, *, needed: bool = True) -> str:
    value = members.get(name, "")
    if not isinstance(value, str) or len(value) > most or (needed and not value.strip()):
        raise FrontMatterDefect(f"needs {name} to be a text of at most {most} characters")
    return value


def _words(members: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    """A list of texts, or one text with commas between them."""
    value = members.get(name, [])
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or len(words) > MAX_WORDS:
        raise FrontMatterDefect(f"needs {name} to be a list of at most {MAX_WORDS} texts")
    found = [word.strip() for word in words if isinstance(word, str)]
    if len(found) < len(words) or any(len(word) > MAX_TEXT for word in found):
        raise FrontMatterDefect(f"needs {name} to be a list of texts")
    return tuple(word for word in dict.fromkeys(found) if word)
