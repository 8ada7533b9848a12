"""The calls of one streamed turn: names, argument deltas, and the one that awaits a decision.

Arguments that arrive before their name wait in a buffer, and a name that is not allowed parks the
call: the assembler takes nothing more in until that is resolved. What was decided on a call holds
for everything that still arrives under the same internal id (agent-run.md 8.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from app.engine.errors import CompletionError
from app.engine.messages import ToolCall
from app.engine.streaming.items import (
    EmitToolCallDelta,
    Ignored,
    InvalidToolCall,
    Repaired,
    StreamedInvalidToolCall,
    TurnAbandoned,
)
from app.engine.streaming.stored import (
    CallsDocument,
    DeltasDocument,
    KeptCall,
    ParkedCall,
)

if TYPE_CHECKING:
    from app.engine.streaming.items import (
        StreamedResolution,
        StreamedTurnEvent,
        ToolCallArgumentsItem,
        ToolCallItem,
        ToolCallNameItem,
    )
    from app.engine.turn_policy import TurnPolicy

Events = tuple["StreamedTurnEvent", ...]


@dataclass(slots=True)
class _Deltas:
    """What streamed of one call. While `name` is None, arguments wait in `buffered`.

    `refused` is the name that a repair replaced by `name`.
    """

    name: str | None = None
    refused: str | None = None
    buffered: list[str] = field(default_factory=list)

    def named(self, internal_call_id: str, name: str) -> Events:
        """Make the name known: forward it, then what waited for it."""
        self.name = name
        pieces = [_delta_of_name(internal_call_id, name)]
        pieces += [_delta_of_arguments(internal_call_id, delta) for delta in self.buffered]
        self.buffered.clear()
        return tuple(pieces)


class StreamedCalls:
    """The calls kept so far, in order, and the state of those still arriving."""

    __slots__ = ("_abandoned", "_allowed", "_deltas", "_ignored", "_kept", "_parked", "_policy")

    def __init__(self, policy: TurnPolicy) -> None:
        self._policy = policy
        self._allowed = frozenset(policy.allowed_tools)
        self._kept: list[KeptCall] = []
        self._deltas: dict[str, _Deltas] = {}
        self._ignored: set[str] = set()
        self._abandoned = False
        self._parked: ParkedCall | None = None

    @classmethod
    def load(cls, policy: TurnPolicy, document: CallsDocument) -> StreamedCalls:
        """The calls that `dump` wrote."""
        calls = cls(policy)
        calls._kept.extend(document.kept)
        for one in document.deltas:
            calls._deltas[one.internal_call_id] = _Deltas(
                name=one.name, refused=one.refused, buffered=list(one.buffered)
            )
        calls._ignored.update(document.ignored)
        calls._abandoned = document.abandoned
        calls._parked = document.parked
        return calls

    def dump(self) -> CallsDocument:
        """The calls as they are stored."""
        return CallsDocument(
            kept=self.kept,
            deltas=tuple(
                DeltasDocument(
                    internal_call_id=internal_call_id,
                    name=one.name,
                    refused=one.refused,
                    buffered=tuple(one.buffered),
                )
                for internal_call_id, one in self._deltas.items()
            ),
            ignored=tuple(sorted(self._ignored)),
            abandoned=self._abandoned,
            parked=self._parked,
        )

    @property
    def is_parked(self) -> bool:
        """Whether a call awaits a decision."""
        return self._parked is not None

    @property
    def kept(self) -> tuple[KeptCall, ...]:
        """Every valid or repaired call, in order of emission."""
        return tuple(self._kept)

    @property
    def has_ignored(self) -> bool:
        """Whether a call of the turn was decided to be left out."""
        return bool(self._ignored)

    def complete(self, item: ToolCallItem) -> Events:
        """Keep a complete call, or park it."""
        if self._is_gone(item.internal_call_id):
            return ()
        call = item.tool_call
        deltas = self._deltas.get(item.internal_call_id)
        if deltas is not None and deltas.name is not None and deltas.refused == call.name:
            call = call.renamed(deltas.name)
        elif call.name not in self._allowed:
            return self._park(item.internal_call_id, call, call.arguments_text, by_name=False)
        self._keep(item.internal_call_id, call)
        return ()

    def name(self, item: ToolCallNameItem) -> Events:
        """Forward a name and the arguments that waited for it, or park the call."""
        if self._is_gone(item.internal_call_id):
            return ()
        deltas = self._deltas.setdefault(item.internal_call_id, _Deltas())
        if deltas.name is not None and deltas.refused == item.name:
            return deltas.named(item.internal_call_id, deltas.name)
        if item.name in self._allowed:
            return deltas.named(item.internal_call_id, item.name)
        buffer = "".join(deltas.buffered)
        call = _diagnostic_call(item, buffer)
        return self._park(item.internal_call_id, call, buffer, by_name=True)

    def arguments(self, item: ToolCallArgumentsItem) -> Events:
        """Forward a piece of arguments, or let it wait for the name."""
        if self._is_gone(item.internal_call_id):
            return ()
        deltas = self._deltas.setdefault(item.internal_call_id, _Deltas())
        if deltas.name is not None:
            return (_delta_of_arguments(item.internal_call_id, item.delta),)
        deltas.buffered.append(item.delta)
        return ()

    def nameless_error(self) -> CompletionError | None:
        """What is wrong if the stream ended now: arguments that no valid name was sent for."""
        for internal_call_id, deltas in self._deltas.items():
            if deltas.buffered:
                return CompletionError(
                    "response",
                    f"the stream ended without a valid name for internal_call_id "
                    f"`{internal_call_id}`: {len(deltas.buffered)} buffered argument deltas",
                )
        return None

    def resolve(self, resolution: StreamedResolution) -> Events:
        """Go on after the decision on the parked call. Nothing parked is a `CompletionError`."""
        parked = self._parked
        if parked is None:
            raise CompletionError("response", "no streamed tool call awaits resolution")
        self._parked = None
        match resolution:
            case Repaired(tool_name=name):
                return self._repair(parked, name)
            case Ignored():
                self._deltas.pop(parked.internal_call_id, None)
                self._ignored.add(parked.internal_call_id)
            case TurnAbandoned():
                # The rest of the stream is read for its usage alone. A second invalid call in it
                # could not be decided on any more, because the run has left the turn.
                self._deltas.clear()
                self._abandoned = True
            case _:
                assert_never(resolution)
        return ()

    def _is_gone(self, internal_call_id: str) -> bool:
        return self._abandoned or internal_call_id in self._ignored

    def _park(self, internal_call_id: str, call: ToolCall, args: str, *, by_name: bool) -> Events:
        self._parked = ParkedCall(
            internal_call_id=internal_call_id, tool_call=call, by_name=by_name
        )
        invalid = StreamedInvalidToolCall(
            tool_call=call, internal_call_id=internal_call_id, args=args, policy=self._policy
        )
        return (InvalidToolCall(invalid=invalid),)

    def _repair(self, parked: ParkedCall, name: str) -> Events:
        deltas = self._deltas.setdefault(parked.internal_call_id, _Deltas())
        deltas.refused = parked.tool_call.name
        if parked.by_name:
            return deltas.named(parked.internal_call_id, name)
        self._keep(parked.internal_call_id, parked.tool_call.renamed(name))
        return ()

    def _keep(self, internal_call_id: str, call: ToolCall) -> None:
        """A complete call has its name and its arguments, so nothing waits for either."""
        self._kept.append(KeptCall(internal_call_id=internal_call_id, tool_call=call))
        deltas = self._deltas.setdefault(internal_call_id, _Deltas())
        deltas.name = call.name
        deltas.buffered.clear()


def _diagnostic_call(item: ToolCallNameItem, buffer: str) -> ToolCall:
    call = ToolCall.from_wire(None, item.name, buffer, turn=0, position=0)
    return call.model_copy(update={"id": f"local-{item.internal_call_id}"})


def _delta_of_name(internal_call_id: str, name: str) -> EmitToolCallDelta:
    return EmitToolCallDelta(internal_call_id=internal_call_id, kind="name", value=name)


def _delta_of_arguments(internal_call_id: str, delta: str) -> EmitToolCallDelta:
    return EmitToolCallDelta(internal_call_id=internal_call_id, kind="arguments", value=delta)
