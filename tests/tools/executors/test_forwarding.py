"""Executors around executors: nothing is lost on the way (turn.md 3.9, I20, T116)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from typing_extensions import override

from app.policy.dispatch import CallRules
from app.tools.executors.dispatch_rules import RuledExecutor
from app.tools.executors.forwarding import ForwardingExecutor
from app.tools.executors.hatch import HatchedExecutor
from app.turn.ports import DispatchAllow, ToolExecutor, WorkerScope
from tests.support.turn.tools import MemoryTool, MemoryTools
from tests.tools.played import invocation

PORT = sorted(
    name
    for name, _ in inspect.getmembers(ToolExecutor, inspect.isfunction)
    if not name.startswith("_")
)
COMPOSED = ForwardingExecutor.__subclasses__()
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "execute": (invocation("t", {"n": 1}),),
    "specs": (),
    "for_worker": (WorkerScope("run_1", "call_1", ("t",)),),
    "pre_dispatch": ("t", {"n": 1}),
    "post_dispatch": ("t", {"n": 1}, "{}"),
    "sandbox_would_deny": ("t", {"n": 1}),
    "recover_unadvertised": ("t", {"n": 1}),
}


class Told(MemoryTools):
    """Keeps which methods were called, and with what."""

    def __init__(self) -> None:
        super().__init__(MemoryTool("t", decision=DispatchAllow()))
        self.told: list[tuple[str, tuple[Any, ...]]] = []

    @override
    def __getattribute__(self, name: str) -> Any:
        if name not in PORT:
            return super().__getattribute__(name)
        return self._noting(name, super().__getattribute__(name))

    def _noting(self, name: str, method: Any) -> Any:
        def noted(*arguments: Any) -> Any:
            self.told.append((name, arguments))
            return self if name == "for_worker" else method(*arguments)

        return noted


def test_t116_the_port_is_all_that_is_forwarded_and_every_composition_is_known() -> None:
    """T116: whoever adds an executor around executors inherits the forwarding."""
    assert len(PORT) == 14
    assert set(COMPOSED) == {HatchedExecutor, RuledExecutor}
    assert set(PORT) <= set(vars(ForwardingExecutor))


@pytest.mark.parametrize("name", PORT)
@pytest.mark.parametrize("composed", ["plain", "ruled", "hatched"])
async def test_t116_every_method_reaches_the_executor_within(composed: str, name: str) -> None:
    """T116: with the same arguments, and its answer comes back."""
    inner = Told()
    around: dict[str, ToolExecutor] = {
        "plain": ForwardingExecutor(inner),
        "ruled": RuledExecutor(inner, CallRules(), server_of=lambda _: None),
        "hatched": HatchedExecutor(inner, ["t"], search=None),  # type: ignore[arg-type]  # nothing is hidden, so nothing is searched
    }
    arguments = ARGUMENTS.get(name, ("t",))
    answer = await _answer(around[composed], name, arguments)
    if (composed, name) == ("hatched", "recover_unadvertised"):
        # The hatch is what looks for tools; it asks which there are.
        assert inner.told == [("specs", ())]
        return
    assert inner.told == [(name, arguments)]
    if name != "for_worker":
        assert answer == await _answer(MemoryTools(MemoryTool("t")), name, arguments)


async def _answer(executor: ToolExecutor, name: str, arguments: tuple[Any, ...]) -> Any:
    answer = getattr(executor, name)(*arguments)
    return await answer if inspect.isawaitable(answer) else answer
