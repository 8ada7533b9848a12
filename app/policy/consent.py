"""The ordinary consent rule: whether a tool asks although nothing is missing (service.md 3).

Rules are looked up by exact text: a tool's own name, then its server's `server:*`, then `*`.
A prefix never matches, so `git:*` says nothing about a server named `github`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Consent(StrEnum):
    """What a rule says of a tool, from lenient to strict."""

    ALLOW = "allow"
    ASK = "ask"
    VETO = "veto"


_STRICTNESS: Final = tuple(Consent)


@dataclass(frozen=True, slots=True)
class ConsentRules:
    """An agent's rules by pattern: a tool name, `server:*` or `*`."""

    rules: Mapping[str, Consent]

    def rule_for(self, tool: str, server: str | None = None) -> Consent | None:
        """The rule of the closest pattern; None if none covers the tool, so its default holds."""
        if (own := self.rules.get(tool)) is not None:
            return own
        if server is not None and (servers := self.rules.get(f"{server}:*")) is not None:
            return servers
        return self.rules.get("*")


def stricter(a: Consent, b: Consent) -> Consent:
    """The one of two rules that allows less."""
    return max(a, b, key=_STRICTNESS.index)
