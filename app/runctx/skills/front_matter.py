"""The YAML of a SKILL.md, read as data and nothing else: no tags, no aliases, no repeated keys.

Nodes are read, never constructed, so that no text of a stranger makes an object (run-context.md 6).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_BYTES: Final = 16 * 1024
MAX_DEPTH: Final = 16
_HEAD: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TAG: Final = "tag:yaml.org,2002:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,14})")
_BOOLEANS: Final = {"true": True, "false": False}


class FrontMatterDefect(ValueError):
    """What is wrong with the front matter, as half a sentence that quotes nothing of it."""


def split_front_matter(text: str) -> tuple[dict[str, JsonValue], str]:
    """The front matter, and the Markdown behind it to the letter. Raises FrontMatterDefect."""
    head = _HEAD.match(text.removeprefix("\ufeff"))
    if head is None:
        raise FrontMatterDefect("does not begin with front matter between two lines of ---")
    if len(head[1].encode(errors="replace")) > MAX_BYTES:
        raise FrontMatterDefect(f"has front matter of more than {MAX_BYTES} bytes")
    try:
        _require_plain(head[1])
        value = _value(yaml.compose(head[1], Loader=yaml.SafeLoader), set())
    except yaml.YAMLError:
        raise FrontMatterDefect("has front matter that is not YAML") from None
    if not isinstance(value, dict):
        raise FrontMatterDefect("has front matter that is no mapping")
    return value, text.removeprefix("\ufeff")[head.end() :]


def _require_plain(text: str) -> None:
    """Refuse what is nested deep while it is read, for reading it all takes longer and longer."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.ScalarEvent() if _SURROGATE.search(event.value):
                raise FrontMatterDefect("has front matter with a lone surrogate")
        if depth > MAX_DEPTH:
            raise FrontMatterDefect(f"has front matter nested deeper than {MAX_DEPTH}")


def _value(node: Any, seen: set[int]) -> JsonValue:
    """The JSON value of a node. An alias is a node met again, and refused."""
    if node is None:
        return None
    if id(node) in seen:
        raise FrontMatterDefect("has front matter with an alias")
    seen.add(id(node))
    match node:
        case yaml.MappingNode():
            return _mapping(node, seen)
        case yaml.SequenceNode() if node.tag == f"{_TAG}seq":
            return [_value(item, seen) for item in node.value]
        case yaml.ScalarNode() if node.tag.startswith(_TAG):
            return _scalar(node.tag.removeprefix(_TAG), node.value)
        case _:
            raise FrontMatterDefect("has front matter with a tag of its own")


def _mapping(node: Any, seen: set[int]) -> dict[str, JsonValue]:
    if node.tag != f"{_TAG}map":
        raise FrontMatterDefect("has front matter with a tag of its own")
    members: dict[str, JsonValue] = {}
    for key, member in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}merge":
            raise FrontMatterDefect("has front matter with a key that is no text")
        if key.value in members:
            raise FrontMatterDefect("has front matter with a key twice")
        seen.add(id(key))
        members[key.value] = _value(member, seen)
    return members


def _scalar(tag: str, text: str) -> JsonValue:
    """What JSON has a form for; anything else, such as a date or `yes`, stays the text it is."""
    if tag == "null":
        return None
    if tag == "bool":
        return _BOOLEANS.get(text.lower(), text)
    if tag == "int" and _INTEGER.fullmatch(text):
        return int(text)
    if tag == "float" and re.fullmatch(r"[-+]?\d{1,15}\.\d{1,15}", text):
        number = float(text)
        return number if math.isfinite(number) else text
    if tag in {"str", "int", "float", "timestamp", "value"}:
        return text
    raise FrontMatterDefect("has front matter with a tag of its own")
