"""JSON Schemas of the built-in tools' arguments: closed objects of texts."""

from __future__ import annotations

from typing import Any, Final

PATH: Final[dict[str, Any]] = {
    "type": "string",
    "description": "Path relative to the workspace, such as notes/today.md",
}
URL: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 8192,
    "description": "An absolute http or https URL",
}


def closed_object(
    required: dict[str, Any], optional: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }
