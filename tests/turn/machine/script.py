"""The model, which plays a script: what it is asked tells where in the script it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from app.turn.ports import FailureKind, ProviderError
from tests.support.turn.provider import called, reply, said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from app.engine.streaming.items import StreamItem
    from app.turn.ports import ModelRequest

DELEGATE, ASK, HANDOFF = "__delegate_to", "ask_question", "__handoff_to"
CLERKS: Final = ("ann", "bob")


def _question(options: int = 2, recommended: int = 0, header: str = "Colour") -> dict[str, object]:
    offered = [{"label": f"option {at}", "recommended": at < recommended} for at in range(options)]
    return {"header": header, "question": "Which?", "options": offered}


def _asked(*questions: dict[str, object]) -> str:
    return json.dumps({"questions": questions})


GOOD_QUESTIONS: Final = (_asked(_question()), _asked(_question(4, 1), _question(3)))
BAD_QUESTIONS: Final = (
    _asked(),
    _asked(*[_question()] * 4),
    _asked(_question(1)),
    _asked(_question(5)),
    _asked(_question(3, 2)),
    _asked(_question(header="much too long a header")),
    "{}",
)
# What the model sends as arguments, and the canonical form where it has one (turn.md 3.3).
CANONICAL: Final = {
    '{"n":1}': '{"n":1}',
    '{"n":1.0}': '{"n":1}',
    ' {"n" : 10e-1}': '{"n":1}',
    '{"n":2}': '{"n":2}',
    '{"m":[1],"n":1}': '{"m":[1],"n":1}',
    "{}": "{}",
}


class Long(str):
    """A text that nobody wants to read in a report."""

    @override
    def __repr__(self) -> str:
        return f"{self[:12]!r} and so on"


TOO_LONG: Final = Long(json.dumps({"n": "x" * 2**20}))
TOO_DEEP: Final = '{"n":' + "[" * 64 + "]" * 64 + "}"
MALFORMED: Final = (
    "{",
    '{"n":1,"n":1}',
    "[]",
    '{"n":9007199254740992}',
    '{"n":"\\ud800"}',
    TOO_LONG,
    TOO_DEEP,
)
DELEGATIONS: Final = (
    '{"target_agent_id":"ann","task":"go"}',
    '{"target_agent_id":"agents/bob","task":"go"}',
)
BAD_DELEGATIONS: Final = (
    '{"target_agent_id":"carol","task":"go"}',
    '{"task":"go"}',
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: tools with the text of their arguments, and how often its dial fails before."""

    calls: tuple[tuple[str, str], ...]
    fails: int = 0


@dataclass(slots=True)
class ScriptedModel:
    """Plays its replies and then says ok. `open` counts the streams that nobody has closed."""

    replies: tuple[Reply, ...]
    requests: list[ModelRequest] = field(default_factory=list)
    open: int = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        self.open += 1
        try:
            for item in self._items(request):
                yield item
        finally:
            self.open -= 1

    def _items(self, request: ModelRequest) -> list[StreamItem]:
        at = request.replies
        if not request.calls_allowed or at >= len(self.replies):
            return _sound(reply(said("ok")))
        if request.dial < self.replies[at].fails:
            raise ProviderError(FailureKind.UNAVAILABLE, "busy")
        calls = self.replies[at].calls
        # The provider's id repeats in every call of every reply, so it can tell none apart.
        return _sound(
            reply(*[called("c1", tool, text, position=i) for i, (tool, text) in enumerate(calls)])
        )


def _sound(items: list[StreamItem | Exception]) -> list[StreamItem]:
    return [item for item in items if not isinstance(item, Exception)]
