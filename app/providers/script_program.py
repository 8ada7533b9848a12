"""Programs of the `script` model (service.md 8): from text to the steps it plays.

A program is steps separated by lines `---`. `_GRAMMAR` is the whole language, one row a line; a
line that fits no row is text to be said as it is. Text keeps its characters exactly: lines of text
are joined by newlines, and words keep the blanks in front of them, so that the pieces of a step
concatenate to what was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.engine.streaming.items import ToolCallItem
from app.engine.usage import Usage
from app.providers.calls import call_from_wire
from app.turn.ports import FailureKind

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
_UNREPORTED: Final = Usage()


@dataclass(frozen=True, slots=True)
class Speech:
    """Words to stream, as text or as reasoning, each after a wait of `delay_s` seconds."""

    words: tuple[str, ...]
    delay_s: float
    is_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """`count` (at least 1) times the same word; never spelled out, for it may be many."""

    first: str
    others: str
    count: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, complete."""

    item: ToolCallItem


@dataclass(frozen=True, slots=True)
class Obey:
    """Calls found in the latest tool results: last in their step, counting on from `index`."""

    step: int
    index: int


Part = Speech | Tokens | Call | Obey


@dataclass(frozen=True, slots=True)
class Step:
    """One reply: its parts in order, and what goes wrong with it.

    `refusals` are (dials, kind): the first `dials` dials fail, all of them where it is None.
    `break_at` is (tokens, kind).
    """

    parts: tuple[Part, ...] = ()
    usage: Usage = _UNREPORTED
    is_cut: bool = False
    refusals: tuple[tuple[int | None, FailureKind], ...] = ()
    break_at: tuple[int, FailureKind] | None = None

    def refusal(self, dial: int) -> FailureKind | None:
        """What the dial with that number, from 0, fails with before the first chunk."""
        for dials, kind in self.refusals:
            if dials is None or dial < dials:
                return kind
        return None


DONE: Final = Step((Speech(("done",), 0.0),))


@dataclass(frozen=True, slots=True)
class Program:
    """The steps of a program; after its last it says `done`."""

    steps: tuple[Step, ...]

    def step(self, number: int) -> Step:
        """The step to play as the reply with that number, from 0."""
        return self.steps[number] if number < len(self.steps) else DONE


def parse_program(text: str) -> Program:
    """The program of a text. Every text is one: what is no command is said. A blank one is done."""
    if not text.strip():
        return Program(())
    drafts = [_Draft(0)]
    for line in text.split("\n"):
        if line.strip() == "---":
            drafts.append(_Draft(len(drafts)))
        else:
            drafts[-1].read(line.removesuffix("\r"))
    return Program(tuple(draft.step() for draft in drafts))


def tool_call_item(step: int, index: int, tool: str, text: str, *, wire_id: str = "") -> Call:
    """Call `index` of a step, under the script's own id unless `wire_id` is another."""
    own_id = f"call_{step}_{index}"
    call = call_from_wire(wire_id or own_id, tool, text, turn=step, position=index)
    return Call(ToolCallItem(tool_call=call, internal_call_id=own_id))


@dataclass(slots=True)
class _Draft:
    """A step being read; one method for each kind of line, with its groups as arguments."""

    number: int
    parts: list[Part] = field(default_factory=list)
    calls: int = 0
    delay_s: float = 0.0
    usage: Usage = _UNREPORTED
    is_cut: bool = False
    refusals: list[tuple[int | None, FailureKind]] = field(default_factory=list)
    break_at: tuple[int, FailureKind] | None = None
    is_obedient: bool = False
    has_text: bool = False
    has_reasoning: bool = False

    def read(self, line: str) -> None:
        command = line.lstrip()
        for pattern, act in _GRAMMAR:
            if (found := pattern.fullmatch(command)) is not None:
                act(self, *found.groups(default=""))
                return
        if command:
            self.say(line)

    def step(self) -> Step:
        if self.is_obedient:
            self.parts.append(Obey(self.number, self.calls))
        return Step(
            parts=tuple(self.parts),
            usage=self.usage,
            is_cut=self.is_cut,
            refusals=tuple(self.refusals),
            break_at=self.break_at,
        )

    def say(self, text: str) -> None:
        words = tuple(_WORDS.findall(self._line_break() + text))
        self.parts.append(Speech(words, self.delay_s))

    def think(self, text: str) -> None:
        words = tuple(_WORDS.findall(("\n" if self.has_reasoning else "") + text))
        self.has_reasoning = True
        self.parts.append(Speech(words, self.delay_s, is_reasoning=True))

    def tokens(self, count: str, word: str) -> None:
        if number := int(count):
            word = word or "token"
            first = self._line_break() + word
            self.parts.append(Tokens(first, f" {word}", number, self.delay_s))

    def call(self, tool: str, text: str) -> None:
        self._emit(tool, text)

    def rawcall(self, tool: str, wire_id: str, text: str) -> None:
        self._emit(tool, text, wire_id=wire_id)

    def delay(self, milliseconds: str) -> None:
        self.delay_s = int(milliseconds) / 1000

    def report(self, read: str, written: str) -> None:
        used = {"input_tokens": int(read), "output_tokens": int(written)}
        self.usage = Usage(**used, total_tokens=sum(used.values()))

    def fail(self, kind: str) -> None:
        self.refusals.append((None, FailureKind(kind)))

    def failafter(self, count: str, kind: str) -> None:
        self.break_at = (int(count), FailureKind(kind))

    def flaky(self, dials: str, kind: str) -> None:
        self.refusals.append((int(dials), FailureKind(kind)))

    def cut(self) -> None:
        self.is_cut = True

    def obey(self) -> None:
        self.is_obedient = True

    def _emit(self, tool: str, text: str, *, wire_id: str = "") -> None:
        self.parts.append(tool_call_item(self.number, self.calls, tool, text, wire_id=wire_id))
        self.calls += 1

    def _line_break(self) -> str:
        """What parts this line of text from the one before it in the step."""
        lead = "\n" if self.has_text else ""
        self.has_text = True
        return lead


# Numbers have at most nine digits: whatever is longer is no number, and so it is text.
_N: Final = r"([0-9]{1,9})"
_KIND: Final = r"(rate_limit|timeout|unavailable|auth|bad_request)"
_GRAMMAR: Final[tuple[tuple[re.Pattern[str], Callable[..., None]], ...]] = (
    (re.compile(r"say(?: (.*))?"), _Draft.say),
    (re.compile(r"think(?: (.*))?"), _Draft.think),
    (re.compile(rf"tokens {_N}(?: (.*))?"), _Draft.tokens),
    (re.compile(r"call (\S+)(?: (.*))?"), _Draft.call),
    (re.compile(r"rawcall (\S+) (\S+)(?: (.*))?"), _Draft.rawcall),
    (re.compile(rf"delay {_N}\s*"), _Draft.delay),
    (re.compile(rf"usage {_N} {_N}\s*"), _Draft.report),
    (re.compile(rf"fail {_KIND}\s*"), _Draft.fail),
    (re.compile(rf"failafter {_N} {_KIND}\s*"), _Draft.failafter),
    (re.compile(rf"flaky {_N} {_KIND}\s*"), _Draft.flaky),
    (re.compile(r"stop length\s*"), _Draft.cut),
    (re.compile(r"obey\s*"), _Draft.obey),
)
