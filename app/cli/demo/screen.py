"""What the demo shows: a timeline of what the client sent, what it was told, and the cards."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from app.cli.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.cli.demo.receiver import Received
    from app.service.clock import SystemClock

WIDTH: Final = 100
_KIND_WIDTH: Final = 20


class Screen:
    """A timeline on a console; every line has the seconds since the start."""

    def __init__(self, clock: SystemClock, *, width: int | None = None) -> None:
        self._console = Console(width=width, highlight=False, soft_wrap=False)
        if width is None and not self._console.is_terminal:
            self._console = Console(width=WIDTH, highlight=False)
        self._clock = clock
        self._start = clock.monotonic()

    def heading(self, text: str) -> None:
        """Begin a scene."""
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left", style="dim")

    def said(self, text: str) -> None:
        """Something about the demo itself."""
        self._line(" ", text, "", whole=True)

    def sent(self, request: str, detail: str) -> None:
        """A request of the client, and what came of it."""
        self._line("→", f"{request:<{_KIND_WIDTH + 5}} ", detail, style="cyan")

    def event(self, event: Mapping[str, Any]) -> None:
        """An event as the stream brought it; deltas are shown as the message they become."""
        if event["type"] in _HIDDEN:
            return
        tell = _DETAILS.get(event["type"])
        detail = visible(tell(event["data"])) if tell else ""
        self._line("←", f"{event['seq']:>4} {event['type']:<{_KIND_WIDTH}} ", detail)

    def card(self, approval: Mapping[str, Any]) -> None:
        """What an approver is asked, with the exact bytes that the signature will cover."""
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim")
        rows.add_column(overflow="fold")
        risk = approval["risk"]
        for name, value in (
            ("tool", approval["tool"]),
            ("goes to", risk["destination"] or "-"),
            ("needs", ", ".join(approval["required_capabilities"])),
            ("why", approval["reason"] or "the agent's rule asks before this tool"),
            ("exact bytes", approval["args_canonical"]),
            ("SHA-256", approval["args_sha256"]),
            ("definition", approval["tool_definition_digest"]),
            ("expires", approval["expires_at"] or "never"),
        ):
            rows.add_row(name, Text(visible(str(value))))
        title = Text(f"approval {approval['id']}", style="bold yellow")
        self._console.print(Panel(rows, title=title, title_align="left", border_style="yellow"))

    def arrived(self, received: Received) -> None:
        """What the outside world got."""
        self._line("⇒", "the receiver got ", received.body, style="green")
        self._line(" ", "Idempotency-Key  ", received.idempotency_key or "-", style="green")

    def verified(self, command: str, output: str) -> None:
        """A command of the house, and what it printed."""
        self._line("$", command, "", style="cyan", whole=True)
        for line in output.splitlines():
            self._line(" ", line, "", style="green", whole=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Something that takes a moment."""
        with self._console.status(text):
            yield

    def _line(
        self, mark: str, head: str, detail: str, *, style: str = "", whole: bool = False
    ) -> None:
        seconds = f"{self._clock.monotonic() - self._start:7.2f}s "
        text = Text.assemble((seconds, "dim"), (f"{mark} ", "bold " + style), (head, style))
        text.append(detail)
        self._console.print(text, no_wrap=not whole, overflow="fold" if whole else "ellipsis")


# Facts of interest to the machine alone; text comes again, whole, in message.assistant.
_HIDDEN: Final = {"text.delta", "reasoning.delta", "context.assembled", "run.checkpointed"}


def _message(data: Mapping[str, Any]) -> str:
    parts = []
    for part in data["content"]:
        if part["type"] == "tool_call":
            parts.append(f"calls {part['tool']}({part['args_canonical']})")
        elif part["type"] == "text":
            parts.append(f"“{part['text'].strip()}”")
    return " ".join(parts)


def _spoken(data: Mapping[str, Any]) -> str:
    text = " ".join(part["text"] for part in data["content"] if part["type"] == "text")
    return " ⏎ ".join(text.splitlines())


def _gated(data: Mapping[str, Any]) -> str:
    rule = "" if data["rule"] == "none" else f", rule {data['rule']}"
    return f"{data['outcome']}{rule}"


_DETAILS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "run.created": lambda data: f"agent {data['agent']}, for {data['principal']}",
    "message.user": _spoken,
    "message.assistant": _message,
    "step.started": lambda data: f"attempt {data['attempt']}, {len(data['granted'])} capabilities",
    "call.gated": _gated,
    "approval.requested": lambda data: data["tool"],
    "approval.decided": lambda data: (
        f"{data['decision']} by {data['approver']}, assurance {data['assurance']}"
    ),
    "approval.resolved": lambda data: f"{data['status']} by {data['by']}",
    "tool.started": lambda data: f"{data['tool']}, attempt {data['attempt']}",
    "tool.completed": lambda data: f"{data['tool']} in {data['duration_ms']} ms",
    "tool.settled": lambda data: f"{data['outcome']}: {data['result']}",
    "run.paused": lambda data: f"waits for {len(data['approvals'])} decision(s)",
    "run.completed": lambda data: f"“{data['answer']['answer']}” after {data['steps']} steps",
    "run.failed": lambda data: f"{data['code']}: {data['message']}",
    "log.sealed": lambda data: f"{data['count']} events under {data['kid']}",
}
