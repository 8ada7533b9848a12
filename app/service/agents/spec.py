"""The agent document of service.md 3: its members, their defaults, and its digest.

Only shape lives here: what one member may hold, whatever else exists. Whether an agent holds
together with the tools, models and other agents there are is said by `check`. The same models read
the wire and the stored document, so an agent saved by an older release gains the new defaults.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.policy.capability import parse_capabilities
from app.policy.grants import GrantPolicy
from app.runctx.attach import INLINE_MAX_BYTES, INLINE_TOTAL_MAX_BYTES
from app.runctx.disposition import DispositionPolicy, InvalidDisposition
from app.runctx.memory import MemorySettings, RecallScope, RecallSettings, Strategy
from app.runctx.skill import MAX_ENTRIES, SKILL_TOOLS, Selection, SkillSettings
from app.service.members import Metadata, Name

AGENT_NAME: Final = r"^[a-z0-9][a-z0-9_-]{0,62}$"
MAX_STEPS: Final = 1000
MAX_PATTERN_CHARS: Final = 200
_TEN_YEARS_S: Final = 10 * 366 * 24 * 3600
_MANY: Final = 1000

Consent = Literal["allow", "ask", "veto"]
Assurance = Literal["channel", "key", "passkey"]
Seconds = Annotated[int, Field(ge=0, le=_TEN_YEARS_S)]
Count = Annotated[int, Field(ge=1, le=2**53 - 1)]
# Zero workers are a lawful bound: the agent has delegates and may use none of them.
Delegations = Annotated[int, Field(ge=0, le=2**53 - 1)]
Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS)]
CapabilityName = Literal[
    "local-read",
    "local-write",
    "fixed-connector-read",
    "arbitrary-egress",
    "mutate-external",
    "grant-access",
    "revoke-access",
    "manage-admin",
    "grant-admin",
]


class Member(BaseModel):
    """A part of a document: strict, frozen, nothing unknown."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Approvers(Member):
    """Whose answer counts: the run's principal, holders of a role, reviewer programs."""

    roles: Annotated[list[Name], Field(max_length=_MANY)] = ["approver"]
    programs: Annotated[list[Name], Field(max_length=_MANY)] = []
    allow_self: bool = True
    count: Annotated[int, Field(ge=1, le=100)] = 1


class AssuranceRules(Member):
    """The least that must bind a decision to its approver, in general and by tool."""

    default: Assurance = "key"
    tools: dict[Name, Assurance] = {}


class RunLimits(Member):
    """Limits of a run; the deadline counts active time."""

    max_tokens: Count | None = None
    deadline_s: Annotated[int, Field(ge=1, le=_TEN_YEARS_S)] | None = None


class GrantPolicyMember(Member):
    """Standing grants; null is the default of turn.md 5.3."""

    base: list[CapabilityName] | None = None
    taint_resilient: list[CapabilityName] = []

    def policy(self) -> GrantPolicy:
        """The policy that it stands for. Raises ValueError where it could never be lawful."""
        resilient = parse_capabilities(self.taint_resilient)
        if self.base is None:
            return GrantPolicy(taint_resilient=resilient)
        return GrantPolicy(parse_capabilities(self.base), resilient)


class RuleCondition(Member):
    """Where in the arguments to look, and for what."""

    pointer: Annotated[str, Field(max_length=1000, pattern=r"^(/[^\n]*)?$")]
    pattern: Pattern


class DispatchRule(Member):
    """One rule before a call (deny, ask, rewrite, inject) or after it (redact)."""

    tool: Name
    action: Literal["deny", "ask", "rewrite", "inject", "redact"]
    when: RuleCondition | None = None
    set: dict[str, JsonValue] | None = None
    pattern: Pattern | None = None
    text: str | None = None


class Delegate(Member):
    """A worker this agent may delegate to, and the paths it may be given."""

    agent: Name
    share_in: Annotated[list[Name], Field(max_length=_MANY)] = []


class OnlyGiven(Member):
    """A member that shows what is not as by default: an agent that says nothing shows nothing."""

    @model_serializer(mode="wrap")
    def _given(self, whole: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields = type(self).model_fields
        given = whole(self).items()
        return {name: one for name, one in given if getattr(self, name) != fields[name].default}


class SkillsMember(OnlyGiven):
    """How an agent reads skills; a null `directory` is one where it has a skill tool."""

    directory: bool | None = None
    max_entries: Annotated[int, Field(ge=0, le=MAX_ENTRIES)] = 0
    selection: Selection = "pinned_then_recent"
    pinned: Annotated[list[Name], Field(max_length=MAX_ENTRIES)] = []
    redact_pii: bool = False

    @property
    def settings(self) -> SkillSettings:
        """The member as the reader takes it."""
        return SkillSettings(
            max_entries=self.max_entries,
            selection=self.selection,
            pinned=tuple(self.pinned),
            redact_personal=self.redact_pii,
        )


class CompactionMember(Member):
    """When the history that is replayed gets condensed (run-context.md 10)."""

    enabled: bool = True
    max_messages: Annotated[int, Field(ge=8, le=10_000)] = 80
    keep_messages: Annotated[int, Field(ge=2, le=10_000)] = 20
    window_share: Annotated[float, Field(ge=0.05, le=1)] = 0.75


class MemoryMember(OnlyGiven):
    """How an agent remembers (run-context.md 5.1)."""

    strategy: Strategy = "none"
    budget_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    recent_turns: Annotated[int, Field(ge=0, le=1000)] = 4
    recovery_backlog_max: Annotated[int, Field(ge=1, le=1000)] = 16
    retrieval: Literal["off", "semantic"] = "off"
    top_k: Annotated[int, Field(ge=0, le=50)] = 5
    min_score: Annotated[float, Field(ge=-1, le=1)] = 0.0
    scope: RecallScope = "session"
    recall_budget_bytes: Annotated[int, Field(ge=1024, le=262_144)] = 16_384
    # Null is by the strategy: with `none` the conversation, with any other the run.
    history: Literal["conversation", "run"] | None = None
    caller_memory_trusted: bool = False
    compaction: CompactionMember = CompactionMember()

    @property
    def remembers(self) -> bool:
        """Whether turns are stored, as a window or to be found by meaning."""
        return self.strategy != "none" or self.retrieval == "semantic"

    @property
    def replays_conversation(self) -> bool:
        """Whether the messages of earlier runs are replayed to the model."""
        if self.history is None:
            return self.strategy == "none"
        return self.history == "conversation"

    @property
    def settings(self) -> MemorySettings:
        """The member as a store takes it."""
        return MemorySettings(
            strategy=self.strategy,
            budget_tokens=self.budget_tokens,
            recent_turns=self.recent_turns,
            recovery_backlog_max=self.recovery_backlog_max,
            is_semantic=self.retrieval == "semantic",
        )

    @property
    def recall(self) -> RecallSettings:
        """How turns are found by meaning, if they are."""
        return RecallSettings(
            enabled=self.retrieval == "semantic",
            top_k=self.top_k,
            min_score=self.min_score,
            scope=self.scope,
            budget_bytes=self.recall_budget_bytes,
        )


def _sound_dispositions(given: dict[str, str]) -> dict[str, str]:
    """The entries with their keys in lower case; two that mean the same contradict each other."""
    try:
        parsed = dict(DispositionPolicy.parse(given).entries)
    except InvalidDisposition as error:
        raise ValueError(error.message) from error
    if len(parsed) < len(given):
        raise ValueError("two keys are the same media type")
    return {key: str(value) for key, value in parsed.items()}


Dispositions = Annotated[
    dict[str, str], Field(max_length=_MANY), AfterValidator(_sound_dispositions)
]


class AttachmentsMember(OnlyGiven):
    """How attachments reach the model, and whether its files are listed (run-context.md 4.3)."""

    dispositions: Dispositions = {}
    inline_max_bytes: Annotated[int, Field(ge=0, le=2**31 - 1)] = INLINE_MAX_BYTES
    inline_total_max_bytes: Annotated[int, Field(ge=0, le=2**31 - 1)] = INLINE_TOTAL_MAX_BYTES
    uploads_trusted: bool = False
    manifest: bool = True

    @property
    def policy(self) -> DispositionPolicy:
        """The dispositions as the resolver takes them."""
        return DispositionPolicy.parse(self.dispositions)


class AgentSpec(Member):
    """An agent: a model, instructions, tools, and the rules its calls fall under."""

    model: Name
    instructions: str = ""
    tools: Annotated[list[Name], Field(max_length=_MANY)] = []
    approval: dict[Name, Consent] = {}
    approvers: Approvers = Approvers()
    assurance: AssuranceRules = AssuranceRules()
    approval_ttl_s: Seconds = 86_400
    question_ttl_s: Seconds = 86_400
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    limits: RunLimits = RunLimits()
    execution_ceiling: list[CapabilityName] | None = None
    grant_policy: GrantPolicyMember = GrantPolicyMember()
    dispatch_rules: Annotated[list[DispatchRule], Field(max_length=100)] = []
    escalate_sandbox_denials: bool = False
    escape_hatch: bool = False
    native_search: bool = False
    cache_hint: Literal["none", "stable_prefix"] = "none"
    delegates: Annotated[list[Delegate], Field(max_length=100)] = []
    delegate_max_fanout: Delegations | None = None
    delegate_turn_budget: Delegations | None = None
    output_schema: dict[str, JsonValue] | None = None
    memory: MemoryMember = MemoryMember()
    skills: SkillsMember = SkillsMember()
    attachments_policy: AttachmentsMember = AttachmentsMember()
    metadata: Metadata = {}

    @property
    def reads_skills(self) -> bool:
        """Whether the agent names a tool that reads skills, or wants their directory."""
        return self.skills.directory is True or not SKILL_TOOLS.isdisjoint(self.tools)

    def document(self) -> dict[str, JsonValue]:
        """The full document, defaults filled in, as it is stored and shown."""
        return self.model_dump(mode="json")


def digest_of(spec: AgentSpec) -> str:
    """The SHA-256 of the canonical document: equal for equal agents, however written."""
    return sha256_hex(canonical_bytes(spec.document()))
