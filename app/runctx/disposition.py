"""How an attachment reaches the model: who says so, and what can be honoured (run-context.md 4).

Pure. What is chosen, by which layer, and why a choice was not honoured are values; whoever resolves
attachments states them. A word that slipped through an edge degrades here and never raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NewType

from app.errors import TurngateError
from app.runctx.mime import media_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.attachments import Layer, Reason
    from app.runctx.ports import ToolCatalog

Disposition = NewType("Disposition", str)

REF: Final = Disposition("ref")
INLINE: Final = Disposition("inline")
PROVIDER_NATIVE: Final = Disposition("provider_native")
_PLAIN: Final = frozenset({REF, INLINE, PROVIDER_NATIVE})
_TOOL: Final = "tool:"
_MAX_TOOL_CHARS: Final = 128
_ANY: Final = "*"


class InvalidDisposition(TurngateError):
    """A text is no disposition, or a policy's key names no media type."""

    code = "attachment.disposition_invalid"


@dataclass(frozen=True, slots=True)
class Degradation:
    """A choice that was not honoured: what it was, what it became, and why."""

    from_: str
    to: Disposition = field(default=REF, init=False)
    reason: Reason
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class DispositionPolicy:
    """An agent's dispositions by exact media type, by `family/*`, and by `*` for all others."""

    entries: Mapping[str, Disposition] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, raw: Mapping[str, str] | None) -> DispositionPolicy:
        """The policy of a document; nothing is an empty policy. Raises InvalidDisposition."""
        entries = {_policy_key(key): parse_disposition(value) for key, value in (raw or {}).items()}
        return cls(MappingProxyType(entries))

    def said_of(self, kind: str) -> str:
        """What the policy has for a media type; empty where it does not speak."""
        family = kind.partition("/")[0]
        keys = (kind, f"{family}/*", _ANY)
        return next((found for key in keys if (found := self.entries.get(key))), "")


def _policy_key(key: str) -> str:
    """A policy's key in lower case. Raises InvalidDisposition if it names no media type."""
    lowered = key.lower()
    if lowered == _ANY:
        return lowered
    family, _, subtype = lowered.partition("/")
    is_plain = subtype and media_type(lowered) == lowered and not any(map(str.isspace, lowered))
    if not is_plain or _ANY in family or (_ANY in subtype and subtype != _ANY):
        raise InvalidDisposition(
            f"expected a media type without parameters, family/* or *, found {key!r}"
        )
    return lowered


def parse_disposition(text: str) -> Disposition:
    """The disposition that a text is, to the letter. Raises InvalidDisposition."""
    if text in _PLAIN or _tool_named(text):
        return Disposition(text)
    raise InvalidDisposition(
        f"expected ref, inline, provider_native or tool:NAME, found {text[:40]!r}"
    )


def tool_of(disposition: str) -> str | None:
    """The tool of `tool:NAME`; None for every other disposition."""
    return _tool_named(disposition) or None


def disposition_hints(raw: Mapping[str, str] | None) -> dict[str, Disposition] | None:
    """What callers asked for, by artifact id, unchecked; None for none at all."""
    return {key: Disposition(value) for key, value in raw.items()} if raw else None


def resolve_disposition(
    hint: Disposition | None, policy: DispositionPolicy | None, mime: str
) -> tuple[str, Layer]:
    """The disposition that is asked for, and the layer that asks: the first that speaks."""
    if hint:
        return hint, "caller_hint"
    kind = media_type(mime)
    if policy is not None and (said := policy.said_of(kind)):
        return said, "agent_policy"
    return (INLINE if is_image(kind) else REF), "runtime_default"


def effective_disposition(
    value: str, mime: str, catalog: ToolCatalog | None
) -> tuple[str, Degradation | None]:
    """The disposition as it can be honoured. Without a catalogue any tool's name holds."""
    if value in {"", REF, PROVIDER_NATIVE}:
        return value, None
    if value == INLINE:
        if is_image(media_type(mime)):
            return value, None
        return REF, Degradation(value, "inline_unsupported_mime")
    tool = tool_of(value)
    if tool is None:
        return REF, Degradation(value, "invalid_disposition")
    if catalog is None or catalog.owns(tool):
        return value, None
    return REF, Degradation(value, "unknown_tool", tool)


def is_image(kind: str) -> bool:
    """Whether a media type is one of an image."""
    return kind.startswith("image/")


def _tool_named(text: str) -> str:
    name = text.removeprefix(_TOOL) if text.startswith(_TOOL) else ""
    is_sound = len(name) <= _MAX_TOOL_CHARS and name.isprintable()
    return name if is_sound and not any(map(str.isspace, name)) else ""
