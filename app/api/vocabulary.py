"""The names of what the description says in many places: closed sets of words, and free JSON.

The framework writes them out wherever they stand. A generator then makes a type of each place, so
the trust of one event cannot be compared with that of another. Here each gets one named schema.
"""

from __future__ import annotations

from typing import Any, Final

WORDS: Final[dict[str, tuple[str, ...]]] = {
    "ApprovalStatus": ("pending", "approved", "denied", "expired", "cancelled", "superseded"),
    "Assurance": ("channel", "key", "passkey"),
    "CacheHint": ("none", "stable_prefix"),
    "Capability": (
        "local-read",
        "local-write",
        "fixed-connector-read",
        "arbitrary-egress",
        "mutate-external",
        "grant-access",
        "revoke-access",
        "manage-admin",
        "grant-admin",
    ),
    "Consent": ("allow", "ask", "veto"),
    "ConstraintOp": ("equals", "one_of", "url_prefix", "range"),
    "GrantState": ("active", "revoked", "suspended", "expired"),
    "MemoryHealth": ("healthy", "retry", "degraded", "recovering"),
    "MemoryStrategy": ("none", "truncation", "rolling_summary"),
    "OnBusy": ("enqueue", "reject", "interrupt"),
    "QuestionStatus": ("pending", "answered", "auto_resolved", "cancelled"),
    "ResolvedBy": ("decision", "session", "expiry", "cancel", "superseded"),
    "RunStatus": ("queued", "running", "paused", "completed", "failed", "cancelled"),
    "Scope": ("once", "session"),
    "Transport": ("http", "stdio"),
    "SkillOrigin": ("pack", "generated"),
    "SkillScope": ("session", "user", "project", "tenant", "global"),
    "Trust": ("unspecified", "trusted_user", "quarantined_content"),
    "Verdict": ("approve", "deny"),
}
_NAMES: Final = {words: name for name, words in WORDS.items()}
_VALUE: Final = {"$ref": "#/components/schemas/JsonValue"}
_OBJECT: Final = "JsonObject"
# What may stand beside a reference and says more than the schema that it names.
_BESIDE: Final = ("default", "description")


def named_schemas() -> dict[str, Any]:
    """The schemas that `with_names` refers to."""
    words = {
        name: {"type": "string", "enum": list(values), "title": name}
        for name, values in WORDS.items()
    }
    free = {"type": "object", "additionalProperties": _VALUE, "title": _OBJECT}
    return words | {_OBJECT: free}


def with_names(node: Any) -> Any:
    """The node of a description in which whatever has a name is a reference to it."""
    match node:
        case dict():
            name = _name(node)
            if name is None:
                return {key: with_names(value) for key, value in node.items()}
            beside = {key: node[key] for key in _BESIDE if key in node}
            return {"$ref": f"#/components/schemas/{name}"} | beside
        case list():
            return [with_names(each) for each in node]
        case _:
            return node


def _name(node: dict[str, Any]) -> str | None:
    """The name of a schema that is nothing but a set of words, or any JSON object."""
    if node.get("type") == "object":
        is_free = node.get("additionalProperties") == _VALUE and "propertyNames" not in node
        return _OBJECT if is_free and "properties" not in node else None
    words = node.get("enum")
    return _NAMES.get(tuple(words)) if isinstance(words, list) else None
