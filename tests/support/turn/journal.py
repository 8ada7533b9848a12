"""A journal and a clock in memory, and a sender that keeps what was streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from app.log.payload import Payload
    from app.policy.taint import Trust
    from app.turn.ports import Fact
    from app.turn.stream import TurnStreamEvent

P = TypeVar("P", bound="Payload")


@dataclass(slots=True)
class MemoryJournal:
    """Keeps facts as recorded; `commits` has one tuple per `record` or `conclude`."""

    commits: list[tuple[Fact, ...]] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    kept_as: list[Trust] = field(default_factory=list)
    keeps_artifacts: bool = True
    messages: int = 0

    def message_id(self) -> str:
        self.messages += 1
        return f"msg_{self.messages}"

    async def record(self, *facts: Fact) -> None:
        self.commits.append(facts)

    def conclude(self, *facts: Fact) -> None:
        if facts:
            self.commits.append(facts)

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        self.kept[call_id] = text
        self.kept_as.append(trust)
        return f"art_{call_id}" if self.keeps_artifacts else None

    @property
    def facts(self) -> list[Fact]:
        """Everything recorded, in order."""
        return [fact for commit in self.commits for fact in commit]

    @property
    def types(self) -> list[str]:
        """The wire tags of everything recorded, in order."""
        return [fact.payload.TYPE for fact in self.facts]

    def of(self, kind: type[P]) -> list[P]:
        """The payloads of one kind, in order."""
        return [fact.payload for fact in self.facts if isinstance(fact.payload, kind)]


@dataclass(slots=True)
class SleeperClock:
    """A clock that moves only when somebody sleeps; `slept` are the waits asked for."""

    ms: int = 1_000_000
    chance: float = 0.5
    slept: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.ms

    def jitter(self) -> float:
        return self.chance

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ms += int(seconds * 1000)


@dataclass(slots=True)
class KeptStream:
    """Takes every event at once."""

    events: list[TurnStreamEvent] = field(default_factory=list)

    async def send(self, event: TurnStreamEvent) -> None:
        self.events.append(event)
