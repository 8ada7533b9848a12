"""What a run's attachments are, read from a store: one bad file never costs the others.

A file that cannot be had is skipped, a choice that cannot be honoured becomes a reference, and each
is a fact and a line of the log, without names or content (run-context.md 3.7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import structlog

from app.policy.taint import Trust, highest
from app.runctx.disposition import (
    INLINE,
    PROVIDER_NATIVE,
    Degradation,
    effective_disposition,
    resolve_disposition,
)
from app.runctx.identity import require_identity
from app.runctx.mime import media_type
from app.runctx.projection import shown_filename
from app.runctx.shapes import InputArtifactView
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from structlog.typing import FilteringBoundLogger as Logger

    from app.ids import Identity
    from app.log.attachments import Layer, Reason
    from app.runctx.disposition import Disposition, DispositionPolicy
    from app.runctx.ports import ArtifactReader, ToolCatalog
    from app.runctx.shapes import ArtifactRef

INLINE_MAX_BYTES: Final = 5_242_880
INLINE_TOTAL_MAX_BYTES: Final = 20_971_520

log = structlog.get_logger("turngate.inputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """What callers asked for, what the agent says, its tools, and how much may go along inline."""

    hints: Mapping[str, Disposition] | None = None
    policy: DispositionPolicy | None = None
    catalog: ToolCatalog | None = None
    inline_max_bytes: int = INLINE_MAX_BYTES
    inline_total_max_bytes: int = INLINE_TOTAL_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class InputResolved:
    """How one attachment goes along: the facts of `attachment.resolved`."""

    artifact_id: str
    mime: str
    media_type: str
    size_bytes: int
    disposition: str
    layer: Layer
    degraded: bool = False
    degraded_from: str | None = None
    degradation_reason: Reason | None = None
    tool: str | None = None
    trust: Trust


@dataclass(frozen=True, slots=True)
class InputSkipped:
    """An attachment that is not there, and why."""

    artifact_id: str
    reason: Literal["store_missing", "not_found", "ref_error"]


@dataclass(frozen=True, slots=True)
class ResolvedInputs:
    """The attachments of a run; `trust` is that of the content that reaches the model."""

    views: list[InputArtifactView] | None = None
    facts: tuple[InputResolved | InputSkipped, ...] = ()
    trust: Trust = Trust.UNSPECIFIED


async def resolve_input_artifacts(
    store: ArtifactReader | None,
    identity: Identity,
    *,
    ids: Sequence[str] | None,
    options: InputOptions | None = None,
    logger: Logger | None = None,
) -> ResolvedInputs:
    """The attachments in their order, repeated ids once. Raises IdentityRequired alone."""
    if not ids:
        return ResolvedInputs()
    told: Logger = logger or log
    require_identity(identity, told, "artifact.identity_rejected")
    wanted = tuple(dict.fromkeys(ids))
    if store is None:
        told.warning("inputs.store_missing", run=identity.run, count=len(wanted))
        return ResolvedInputs([], tuple(InputSkipped(one, "store_missing") for one in wanted))
    resolver = _Resolver(store, identity, options or InputOptions(), told)
    for artifact_id in wanted:
        await resolver.resolve(artifact_id)
    reaching = (view.trust for view in resolver.views if reaches_model(view))
    return ResolvedInputs(resolver.views, tuple(resolver.facts), highest(reaching))


def reaches_model(view: InputArtifactView | InputResolved) -> bool:
    """Whether the model gets the content itself; a stub brings none of it."""
    return view.disposition in {INLINE, PROVIDER_NATIVE}


def trusted_upload(ref: ArtifactRef) -> ArtifactRef:
    """The file as an agent sees it that trusts what people upload; a tool's result as it is."""
    is_upload = ref.namespace == "uploads"
    return replace(ref, trust=Trust.TRUSTED_USER) if is_upload else ref


class _Resolver:
    """Resolves one attachment after the other, and counts what goes along inline."""

    def __init__(
        self,
        store: ArtifactReader,
        identity: Identity,
        options: InputOptions,
        told: Logger,
    ) -> None:
        self._store = store
        self._run = identity.run
        self._scope = identity.session_scope()
        self._options = options
        self._told = told
        self._inlined = 0
        self.views: list[InputArtifactView] = []
        self.facts: list[InputResolved | InputSkipped] = []

    async def resolve(self, artifact_id: str) -> None:
        try:
            ref = await self._store.get_ref(self._scope, artifact_id)
        except Exception as error:  # noqa: BLE001 - a run goes on without a file, whatever it was
            self._skip(InputSkipped(artifact_id, "ref_error"), error)
            return
        if ref is None:
            self._skip(InputSkipped(artifact_id, "not_found"))
            return
        hint = (self._options.hints or {}).get(artifact_id)
        value, layer = resolve_disposition(hint, self._options.policy, ref.mime)
        disposition, lost = effective_disposition(value, ref.mime, self._options.catalog)
        content: bytes | None = None
        if disposition == INLINE:
            content, lost = await self._bytes(ref)
            disposition = disposition if lost is None else lost.to
        view = _view(ref, disposition, content)
        self.views.append(view)
        self._state(_resolved(view, layer, lost))

    async def _bytes(self, ref: ArtifactRef) -> tuple[bytes | None, Degradation | None]:
        """The bytes of a file that is to go along inline, or why it cannot."""
        options = self._options
        if (
            ref.size_bytes > options.inline_max_bytes
            or self._inlined + ref.size_bytes > options.inline_total_max_bytes
        ):
            return None, Degradation(INLINE, "inline_too_large")
        try:
            content = await self._store.get(self._scope, ref.id)
        except Exception:  # noqa: BLE001 - as above: a reference stands for the bytes
            content = None
        if not content:
            return None, Degradation(INLINE, "bytes_unavailable")
        self._inlined += len(content)
        return content, None

    def _skip(self, fact: InputSkipped, error: Exception | None = None) -> None:
        self.facts.append(fact)
        self._told.warning(
            "inputs.skipped",
            run=self._run,
            artifact=fact.artifact_id,
            reason=fact.reason,
            error=None if error is None else type(error).__name__,
        )

    def _state(self, fact: InputResolved) -> None:
        self.facts.append(fact)
        tell = self._told.warning if fact.degraded else self._told.debug
        tell(
            "inputs.resolved",
            run=self._run,
            artifact=fact.artifact_id,
            disposition=fact.disposition,
            layer=fact.layer,
            reason=fact.degradation_reason,
        )


def _view(ref: ArtifactRef, disposition: str, content: bytes | None) -> InputArtifactView:
    return InputArtifactView(
        id=ref.id,
        mime=ref.mime,
        size_bytes=ref.size_bytes,
        filename=without_surrogates(shown_filename(ref) or ""),
        sha256=ref.sha256,
        disposition=disposition,
        trust=ref.trust,
        content=content,
    )


def _resolved(view: InputArtifactView, layer: Layer, lost: Degradation | None) -> InputResolved:
    fact = InputResolved(
        artifact_id=view.id,
        mime=view.mime,
        media_type=media_type(view.mime),
        size_bytes=view.size_bytes,
        disposition=view.disposition,
        layer=layer,
        trust=view.trust,
    )
    if lost is None:
        return fact
    return replace(
        fact,
        degraded=True,
        degraded_from=lost.from_,
        degradation_reason=lost.reason,
        tool=lost.tool,
    )
