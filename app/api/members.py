"""What each member of a request, an answer or an event is, for the description.

The words are in `members.toml`: a member of one name is one thing nearly everywhere, so most of
them are said once. They are read only where a description is made.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Final = Path(__file__).with_name("members.toml")
_ANYWHERE: Final = "anywhere"


def words() -> dict[str, dict[str, str]]:
    """By schema, or `anywhere`, what is said of members."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def describe_members(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Give every member of these schemas its line, unless it has one of its own."""
    said = words()
    for name, schema in schemas.items():
        own = said[_ANYWHERE] | said.get(name, {})
        for member, described in schema.get("properties", {}).items():
            if member in own:
                described.setdefault("description", own[member])
