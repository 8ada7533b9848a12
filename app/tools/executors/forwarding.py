"""An executor around another one, that forwards every method (turn.md 3.9, I20).

Whoever composes executors inherits from this and overrides what it changes: a method that was
forgotten would fall back to a default, and a default once switched a whole guard off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from app.turn.ports import ToolExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.policy.capability import CapabilitySet
    from app.turn.ports import (
        DispatchRedact,
        ToolDecision,
        ToolInvocation,
        ToolOutcome,
        ToolSpec,
        WorkerScope,
    )


class ForwardingExecutor(ToolExecutor):
    """Answers as `inner` does."""

    def __init__(self, inner: ToolExecutor) -> None:
        self._inner = inner

    @override
    async def execute(self, call: ToolInvocation) -> ToolOutcome:
        return await self._inner.execute(call)

    @override
    def specs(self) -> Sequence[ToolSpec]:
        return self._inner.specs()

    @override
    def owns(self, name: str) -> bool:
        return self._inner.owns(name)

    @override
    def spec(self, name: str) -> ToolSpec | None:
        return self._inner.spec(name)

    @override
    def needs_approval(self, name: str) -> bool:
        return self._inner.needs_approval(name)

    @override
    async def pre_dispatch(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        return await self._inner.pre_dispatch(name, args)

    @override
    async def post_dispatch(
        self, name: str, args: Mapping[str, Any], result: str
    ) -> DispatchRedact | None:
        return await self._inner.post_dispatch(name, args, result)

    @override
    def cacheable_approval(self, name: str) -> bool:
        return self._inner.cacheable_approval(name)

    @override
    def is_idempotent(self, name: str) -> bool:
        return self._inner.is_idempotent(name)

    @override
    async def sandbox_would_deny(self, name: str, args: Mapping[str, Any]) -> bool:
        return await self._inner.sandbox_would_deny(name, args)

    @override
    def required_capabilities(self, name: str) -> CapabilitySet:
        return self._inner.required_capabilities(name)

    @override
    def ingests_untrusted_content(self, name: str) -> bool:
        return self._inner.ingests_untrusted_content(name)

    @override
    async def recover_unadvertised(self, name: str, args: Mapping[str, Any]) -> Sequence[ToolSpec]:
        return await self._inner.recover_unadvertised(name, args)

    @override
    def for_worker(self, scope: WorkerScope) -> ToolExecutor:
        return self._inner.for_worker(scope)
