"""RunTurnOptions: what a turn is asked to do beyond the ordinary (turn.md 2).

A default-constructed object is a plain turn, and a feature that is off changes no byte. The object
is never changed: what is used up during a turn lives in the turn's own state.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from typing_extensions import override

from app.policy.capability import ALL_CAPABILITIES
from app.policy.grants import GrantPolicy
from app.turn.ports import CacheHint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.policy.capability import CapabilitySet
    from app.policy.grants import RememberedGrant, SessionApproval
    from app.turn.ports import (
        Clock,
        DispatchRecorder,
        GrantRegister,
        SharedFiles,
        ToolExecutor,
        ToolSpec,
        TurnEventSender,
    )
    from app.turn.ports import Provider as ProviderPort


@dataclass(frozen=True, slots=True)
class Identity:
    """What a decision is bound to when no occurrence is known: id, tool, canonical arguments."""

    request_id: str
    tool_name: str
    args_json: str


@dataclass(frozen=True, slots=True)
class ApprovalOverride:
    """An approver's edit: arguments to run instead (canonical JSON), and a note for the model."""

    modified_args_json: str = ""
    injected_context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """One verified answer to one approval request (turn.md 2.3).

    `covered` is None for a decision without a covered set (a collection tuple), which skips check 3
    of turn.md 6.4. `effective_sha256` is the signed digest of the arguments that may run, and
    `definition_digest` that of the tool's definition as it was shown; None leaves either unchecked.
    `outcome_unknown` marks the answer to a request to run a started call again.
    """

    request_id: str
    tool_name: str
    args_json: str
    approved: bool
    turn_id: str | None = None
    call_id: str | None = None
    approval_id: str = ""
    override: ApprovalOverride | None = None
    decided_by: tuple[str, ...] = ()
    grant_scope: str = "once"
    covered: CapabilitySet | None = None
    effective_sha256: str | None = None
    definition_digest: str | None = None
    reason: str = ""
    sandbox_mode: str | None = None
    expired: bool = False
    outcome_unknown: bool = False

    @property
    def identity(self) -> Identity:
        """The proposed call, without its turn."""
        return Identity(self.request_id, self.tool_name, self.args_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAnswer:
    """A verified answer to one question of an `ask_question` call (turn.md 7.2).

    `args_sha256` is the digest of the call's arguments, as they were shown to who answered. Nobody
    answered what is `auto_resolved`. `is_principals_own`: who answered is the principal themselves.
    """

    turn_id: str
    call_id: str
    index: int
    args_sha256: str
    outcome: Literal["answered", "declined", "auto_resolved"]
    selected_index: int | None = None
    selected_label: str | None = None
    free_text: str | None = None
    answered_by: str = ""
    is_principals_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateDescriptor:
    """A worker this agent may delegate to, resolved in full (turn.md 7.1).

    `share_in` are the paths that may be copied into its workspace; `files` copies them.
    """

    agent_id: str
    instructions: str
    provider: ProviderPort
    provider_name: str
    model: str
    tools: ToolExecutor
    tool_specs: Sequence[ToolSpec] = ()
    max_steps: int | None = None
    native_search_allowed: bool = False
    escalate_sandbox_denials: bool = False
    share_in: tuple[str, ...] = ()
    files: SharedFiles | None = None
    grant_policy: GrantPolicy = field(default_factory=GrantPolicy)
    execution_ceiling: CapabilitySet = ALL_CAPABILITIES


@dataclass(frozen=True, kw_only=True, repr=False)
class RunTurnOptions:
    """Options for one `run_turn`; the fields and their order of precedence are turn.md 2.2's.

    Its repr shows flags and counts: argument text may be private.
    """

    approval_decisions: Sequence[ApprovalDecision] = ()
    approved_call_ids: frozenset[Identity] = frozenset()
    approved_overrides: Mapping[Identity, ApprovalOverride] = field(default_factory=dict)
    denied_call_ids: frozenset[Identity] = frozenset()
    max_steps: int | None = None
    default_max_steps: int | None = None
    stream_tx: TurnEventSender | None = None
    native_search_allowed: bool = False
    session_approved_tools: Mapping[str, SessionApproval] = field(default_factory=dict)
    remembered_grants: Mapping[str, Sequence[RememberedGrant]] = field(default_factory=dict)
    grant_register: GrantRegister | None = None
    unattended: bool = False
    escape_hatch: bool = False
    escalate_sandbox_denials: bool = False
    untrusted_context_seed: bool = False
    dispatch_recorder: DispatchRecorder | None = None
    clock: Clock | None = None
    cache_hint: CacheHint = CacheHint.NONE
    delegate_descriptors: Sequence[DelegateDescriptor] = ()
    delegate_max_fanout: int | None = None
    delegate_turn_budget: int | None = None
    is_delegated_worker: bool = False
    question_answers: Sequence[VerifiedAnswer] = ()
    turn_start_unix_ms: int | None = None

    @override
    def __repr__(self) -> str:
        shown = ", ".join(
            f"{item.name}={_shown(getattr(self, item.name))}" for item in fields(self)
        )
        return f"RunTurnOptions({shown})"


def _shown(value: object) -> object:
    match value:
        case bool() | int() | str() | None:
            return value
        case Sized():
            return len(value)
        case _:
            return type(value).__name__
