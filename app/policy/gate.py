"""The gate: may this call run, must somebody be asked, or is it refused (turn.md 5.4).

`decide()` is the only function that answers, for every call of every turn. It compares sets in a
fixed order and knows no capability by name. Whoever calls it has checked the execution ceiling
already: the ceiling refuses, taint asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from app.policy.capability import NO_CAPABILITIES, Capability, CapabilitySet, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Allow:
    """The call runs as proposed."""

    label: ClassVar[Literal["allow"]] = "allow"


@dataclass(frozen=True, slots=True)
class Modify:
    """The call runs with other arguments, once the rewrite is recorded."""

    label: ClassVar[Literal["modify"]] = "modify"
    args: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class InjectContext:
    """The call runs, and the model also gets `text`, once that is recorded."""

    label: ClassVar[Literal["inject_context"]] = "inject_context"
    text: str


@dataclass(frozen=True, slots=True)
class Escalate:
    """Somebody must be asked. `reason` is empty where nothing is missing: the rule says ask."""

    label: ClassVar[Literal["escalate"]] = "escalate"
    reason: str
    missing: CapabilitySet


@dataclass(frozen=True, slots=True)
class Deny:
    """The call is refused, and no consent can change that."""

    label: ClassVar[Literal["deny"]] = "deny"
    reason: str


Transform = Modify | InjectContext
GateOutcome = Allow | Modify | InjectContext | Escalate | Deny

ALLOW: Final = Allow()
_ASK: Final = Escalate(reason="", missing=NO_CAPABILITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """What the agent's rules and the tool's own checks say of one call."""

    veto: str | None = None
    requires_human: bool = False
    sandbox_escalation: bool = False
    transform: Transform | None = None


def decide(
    required: CapabilitySet, granted: CapabilitySet, *, call_policy: CallPolicy, tool_name: str
) -> GateOutcome:
    """The verdict on one call. The order of the rules is part of the contract."""
    if call_policy.veto is not None:
        return Deny(call_policy.veto)
    if missing := required - granted:
        return Escalate(escalation_reason(tool_name, missing), missing)
    if call_policy.requires_human or call_policy.sandbox_escalation:
        # The transform is dropped on purpose: a person signs the arguments they are shown.
        return _ASK
    return call_policy.transform or ALLOW


# An unannotated tool counts as one that changes something, so that one capability is worded as
# a possibility and not as a fact.
_EFFECTS: Final[dict[Capability, str]] = {
    Capability.LOCAL_READ: "can read files in the workspace",
    Capability.LOCAL_WRITE: "can write or delete files in the workspace",
    Capability.FIXED_CONNECTOR_READ: "can read from a connected service",
    Capability.ARBITRARY_EGRESS: "can send data to an address the model chooses",
    Capability.MUTATE_EXTERNAL: "could change something outside",
    Capability.GRANT_ACCESS: "can give somebody access",
    Capability.REVOKE_ACCESS: "can take somebody's access away",
    Capability.MANAGE_ADMIN: "can manage administrators",
    Capability.GRANT_ADMIN: "can make somebody an administrator",
}


def escalation_reason(tool: str, missing: CapabilitySet) -> str:
    """Why a person is asked, in plain language; equal sets give equal text. Shown word for word."""
    *others, last = [_EFFECTS[capability] for capability in in_order(missing)]
    effects = f"{', '.join(others)} and {last}" if others else last
    return f"{tool} needs a person's consent: it {effects}."
