"""The ports of the turn: what `run_turn` needs of models, tools, the log, the clock and readers.

Adapters fulfil them (`app.providers`, `app.tools`, `app.service`); tests fulfil them in memory. A
turn reaches the world through nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from app.policy.taint import Trust

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.log.payload import Payload, WorkerRef
    from app.policy.capability import CapabilitySet
    from app.turn.native_files import NativeFile
    from app.turn.stream import TurnStreamEvent


class FailureKind(StrEnum):
    """Why a turn, or a dial of a provider, failed (turn.md 9)."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    OTHER = "other"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    OUTPUT_INVALID = "output_invalid"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    INTERNAL = "internal"


class CacheHint(StrEnum):
    """Whether the system text and the pinned specs are marked as cacheable."""

    NONE = "none"
    STABLE_PREFIX = "stable_prefix"


class ProviderError(Exception):
    """A provider's refusal or failure; `retry_after` is the server's wish in seconds."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered to a model; `parameters` is a JSON Schema of an object.

    `trust` is the tag of the description: offering one of an unregistered server taints the turn.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    title: str
    definition_digest: str
    trust: Trust = Trust.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. Nothing in it is a provider's own form.

    `user_text` is the run's own input and `replies` the number of assistant messages since it,
    counted over the log; `dial` counts the attempts of this step from 0. The `script` model plays
    by these three and needs no other state.

    Without `calls_allowed` (the closing completion) an adapter offers no tools; where its provider
    insists on specs beside a transcript with calls, it sends `tools` with calling switched off.
    `context` are blocks that stand right after the instructions, each a system message of its own
    where the provider has such. `now_unix_ms` is the turn's start as shown to the model, after
    both. `files` are what messages name by a source that is a file of the provider's to get.
    """

    model: str
    instructions: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    calls_allowed: bool = True
    cache_hint: CacheHint = CacheHint.NONE
    web_search: bool = False
    user_text: str = ""
    replies: int = 0
    dial: int = 0
    now_unix_ms: int | None = None
    context: Sequence[str] = ()
    files: Sequence[NativeFile] = ()


class Provider(Protocol):
    """A model behind a stream of items, the last of which is a FinalItem."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Dial and stream. Raises ProviderError, before the first item or between two.

        Closing the generator closes the connection; not pulling it stops reading from it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvocation:
    """One execution: `args_canonical` is what was shown, signed and matched, `args` its value."""

    call_id: str
    request_id: str
    name: str
    args: Mapping[str, Any]
    args_canonical: bytes
    idempotency_key: str
    sandbox_mode: str | None = None
    tainted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a tool answered, failures included; `code` is set exactly for a failure.

    `trust` is the tag of what the tool read beyond its own kind, such as a quarantined file.
    """

    text: str
    code: str | None = None
    trust: Trust = Trust.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DispatchAllow:
    """The call may go on."""


@dataclass(frozen=True, slots=True)
class DispatchModify:
    """Other arguments are to run, once that is recorded."""

    args: Mapping[str, Any]
    rule: str = ""


@dataclass(frozen=True, slots=True)
class DispatchRequireApproval:
    """The ordinary consent rule asks."""


@dataclass(frozen=True, slots=True)
class DispatchDeny:
    """The call is vetoed."""

    reason: str


@dataclass(frozen=True, slots=True)
class DispatchInjectContext:
    """The model is to get `text` beside the result, once that is recorded."""

    text: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class DispatchRedact:
    """The result is to be seen as `text`, once that is recorded."""

    text: str
    rule: str = ""


ToolDecision = (
    DispatchAllow | DispatchModify | DispatchRequireApproval | DispatchDeny | DispatchInjectContext
)


class ToolExecutor(Protocol):
    """The tools of one agent, scoped: `owns` is false for every tool outside of its set.

    A composed executor forwards every method (turn.md 3.9); a reflection test proves it.
    """

    async def execute(self, call: ToolInvocation) -> ToolOutcome: ...
    def specs(self) -> Sequence[ToolSpec]: ...
    def owns(self, name: str) -> bool: ...
    def spec(self, name: str) -> ToolSpec | None:
        """The spec of an owned tool, advertised or not."""
        ...

    def needs_approval(self, name: str) -> bool: ...
    async def pre_dispatch(self, name: str, args: Mapping[str, Any]) -> ToolDecision: ...
    async def post_dispatch(
        self, name: str, args: Mapping[str, Any], result: str
    ) -> DispatchRedact | None: ...
    def cacheable_approval(self, name: str) -> bool: ...
    def is_idempotent(self, name: str) -> bool: ...
    async def sandbox_would_deny(self, name: str, args: Mapping[str, Any]) -> bool: ...
    def required_capabilities(self, name: str) -> CapabilitySet: ...
    def ingests_untrusted_content(self, name: str) -> bool: ...
    async def recover_unadvertised(
        self, name: str, args: Mapping[str, Any]
    ) -> Sequence[ToolSpec]: ...
    def for_worker(self, scope: WorkerScope) -> ToolExecutor: ...


@dataclass(frozen=True, slots=True)
class WorkerScope:
    """What a delegated worker may touch: its own workspace, that of the delegation, and its tools.

    `share_in` bounds what may be copied into the workspace: a path, or all below it.
    """

    run_id: str
    call_id: str
    tools: tuple[str, ...]
    share_in: tuple[str, ...] = ()


class SharedFiles(Protocol):
    """The way of files from an agent's workspace into the one of its worker."""

    async def copy_in(self, scope: WorkerScope) -> Sequence[str]:
        """Begin the worker's workspace with the files its `share_in` allows; their paths."""
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a turn states for the log: a payload, its step, its tag, and private bytes.

    A fact of a worker has a `turn_id` of its own.
    """

    payload: Payload
    step: int
    trust: Trust = Trust.UNSPECIFIED
    private: bytes | None = None
    turn_id: str | None = None


class StepRefused(Exception):
    """A journal takes no further step of this turn; what runs already may come to its end."""


class Journal(Protocol):
    """What must be durable while a turn runs."""

    def message_id(self) -> str:
        """A new id for one assistant message."""
        ...

    async def record(self, *facts: Fact) -> None:
        """Returns when the facts, and all text streamed before them, are committed.

        Raises StepRefused in place of beginning another step.
        """
        ...

    def conclude(self, *facts: Fact) -> None:
        """Take the turn's last facts; they are committed together with its end."""
        ...

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        """Keep a result that is too long for the model whole; its artifact id, if one was made."""
        ...


class TurnEventSender(Protocol):
    """The bounded stream towards readers; an awaited send slows the reading of the provider."""

    async def send(self, event: TurnStreamEvent) -> None: ...


class Clock(Protocol):
    """Time and chance of a turn; nothing else in it is not determined by its inputs."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class GrantRegister(Protocol):
    """What became of remembered grants since the turn began (turn.md 6.8)."""

    async def is_live(self, grant_ref: str) -> bool:
        """Whether the grant is neither revoked nor suspended nor expired at this moment."""
        ...


MutationKind = Literal["input_rewrite", "context_injection", "result_redaction"]


class DispatchRecorder(Protocol):
    """Records and signs a dispatch mutation before it applies (turn.md 7.7)."""

    async def record(self, mutation: DispatchMutation) -> bool:
        """Whether the mutation is recorded; only then may it apply."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchMutation:
    """A rewrite, an injection or a redaction of one call, maybe of a delegated worker's.

    `original_sha256` is the digest of the proposed arguments, of a redaction that of the result,
    which is nowhere else. `mutated` are the new arguments (canonical JSON), the text that is
    injected, or the redacted result. That of a worker has a `turn_id` of its own.
    """

    kind: MutationKind
    call_id: str
    tool: str
    rule: str
    step: int
    original_sha256: str
    mutated: str
    worker: WorkerRef | None = None
    turn_id: str | None = None
