"""Which of the tools that a server lists can be offered. Whatever cannot is refused by its name.

A listing is a stranger's text: names go to providers, which take few characters; descriptions and
schemas go into every request, so their size is bounded, one by one and together. Nothing is cut to
fit: a definition is offered as it was declared or not at all, since a person approves the whole.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from jsonschema import Draft202012Validator, SchemaError

from app.engine.json.arguments import canonical_bytes
from app.log.servers import SEPARATOR, McpListing
from app.tools.mcp.references import Unbounded, require_bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.servers import McpTool

MAX_TOOLS: Final = 256
MAX_DESCRIPTION_CHARS: Final = 16 * 1024
MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_LISTING_BYTES: Final = 1024 * 1024
# What every provider takes as the name of a tool.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN_CHARS: Final = 80


def vetted(server: str, declared: Sequence[McpTool]) -> McpListing:
    """The tools that can be offered, and a sentence for each that cannot. Takes its time."""
    times = Counter(tool.name for tool in declared)
    kept: list[McpTool] = []
    refused: list[str] = []
    total = 0
    for tool in declared:
        fault = "it is listed twice" if times[tool.name] > 1 else _fault(server, tool)
        size = 0 if fault else _size(tool)
        if fault is None and (len(kept) == MAX_TOOLS or total + size > MAX_LISTING_BYTES):
            fault = f"a server has at most {MAX_TOOLS} tools and {MAX_LISTING_BYTES} bytes"
        if fault is None:
            kept.append(tool)
            total += size
        else:
            refused.append(f"{tool.name[:_SHOWN_CHARS]!r}: {fault}")
    return McpListing(tools=tuple(kept), refused=tuple(refused[:MAX_TOOLS]))


def _fault(server: str, tool: McpTool) -> str | None:
    if not tool.name or _NAME.fullmatch(server + SEPARATOR + tool.name) is None:
        return "its name, with that of the server, must be 1 to 64 of A-Z a-z 0-9 _ -"
    if len(tool.description) > MAX_DESCRIPTION_CHARS:
        return f"its description is longer than {MAX_DESCRIPTION_CHARS} characters"
    if not _has_bytes(tool.description):
        return "its description is no sound text"
    return _schema_fault(tool)


def _schema_fault(tool: McpTool) -> str | None:
    try:
        size = len(canonical_bytes(dict(tool.parameters)))
        if size > MAX_SCHEMA_BYTES:
            return f"its schema is longer than {MAX_SCHEMA_BYTES} bytes"
        Draft202012Validator.check_schema(tool.parameters)
        require_bounded(tool.parameters)
    except Unbounded as error:
        return f"its parameters: {error}"
    except (SchemaError, ValueError, RecursionError):
        return "its parameters are no JSON Schema"
    if tool.parameters.get("type") != "object":
        return "its parameters must be of type object"
    return None


def _size(tool: McpTool) -> int:
    return len(tool.description) + len(canonical_bytes(dict(tool.parameters)))


def _has_bytes(text: str) -> bool:
    """A lone surrogate has none, and so neither digest nor request could hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
