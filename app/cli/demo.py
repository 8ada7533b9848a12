"""`turngate demo`: the main job, played through the public API as a client would.

A server is started as a process of its own; everything after that is HTTP, one WebSocket a run,
and signatures made here. Nothing is left running unless it is asked for.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.cli import demo_story
from app.cli.demo_client import Client, Person
from app.cli.demo_receiver import Receiver
from app.cli.demo_screen import Screen
from app.cli.demo_server import run_command, served
from app.cli.issuing import issue
from app.service.clock import SystemClock
from app.service.development import TokenOrder
from app.store.embedded import is_used
from app.trust.keys import CHANCE_BYTES, derive_signing_key

if TYPE_CHECKING:
    from app.cli.demo_client import Document
    from app.cli.demo_story import Scene
    from app.settings import Settings

AGENT: Final = "courier"
_SCOPES: Final = (
    *("agents:write", "agents:read", "runs:write", "runs:read"),
    *("approvals:read", "approvals:decide", "keys:write"),
)
_TOKEN_S: Final = 8 * 3600
# What tells the story where the whole log was shown before.
_BRIEF: Final = {
    *("message.user", "message.assistant", "approval.decided"),
    *("tool.started", "tool.settled", "run.completed", "run.failed"),
}


class DemoFailed(Exception):
    """Something did not go as the demo expects; the message says what."""


def demo(settings: Settings, *, keep: bool) -> None:
    """Play the demo. Raises DemoFailed, NotServed, Unexpected and StoreUnavailable."""
    clock = SystemClock()
    screen = Screen(clock)
    settings = _undisturbed(settings, screen)
    # `kill` is to leave as little behind as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with Receiver() as receiver, ExitStack() as stack:
        with screen.waiting("starting Turngate"):
            context = served(settings, clock, allow_host=receiver.host, keep=keep)
            server = stack.enter_context(context)
        screen.said(f"Turngate serves on {server.address}, its data is in {settings.data_dir}")
        client = Client(server.address, _person(settings, clock))
        Play(settings, client, screen, receiver).all(clock)
        if keep:
            screen.heading("It goes on")
            screen.said(f"API description: {server.address}/openapi.json")
            screen.said(f"Stop it: kill {server.process.pid}    A token for {client.person.sub}:")
            print(client.person.token)


def _undisturbed(settings: Settings, screen: Screen) -> Settings:
    """Settings with a place of the demo's own, if somebody else's worker might take its runs."""
    if settings.database_url is not None or not is_used(settings.data_dir):
        return settings
    screen.said(f"another process of turngate works in {settings.data_dir}, so the demo does not")
    return settings.model_copy(update={"data_dir": settings.data_dir / "demo"})


def _person(settings: Settings, clock: SystemClock) -> Person:
    """Somebody new in a tenant of their own, since a first key needs no other key's word."""
    tenant = f"demo-{clock.nonce().hex()[:8]}"
    token = issue(settings, TokenOrder(tenant, "alice", _SCOPES, (), _TOKEN_S))
    chance = b"".join(clock.nonce() for _ in range(3))[:CHANCE_BYTES]
    return Person(tenant, "alice", token, derive_signing_key(chance))


@dataclass(frozen=True, slots=True)
class Play:
    """The scenes, in order, for one person and one model."""

    settings: Settings
    client: Client
    screen: Screen
    receiver: Receiver

    @property
    def model(self) -> str:
        """The model that plays."""
        return self.settings.model or demo_story.SCRIPT

    def all(self, clock: SystemClock) -> None:
        """Play everything. Raises DemoFailed and Unexpected."""
        self._prepare(clock)
        conversation = self._scene(demo_story.approved(self.model, self.receiver.url))
        self._arrived(1)
        self._verify(conversation)
        self._scene(demo_story.denied(self.model, self.receiver.url), brief=True)
        self._arrived(1, show=False)
        self._scene(demo_story.edited(self.model, self.receiver.url), brief=True)
        self._arrived(2)

    def _prepare(self, clock: SystemClock) -> None:
        person = self.client.person
        self.screen.heading("A key and an agent")
        key = self.client.register_key("demo", now=int(clock.now().timestamp()))
        self.screen.sent("POST /v1/keys", f"{key['id']} of {person.sub}, with proof, ES256")
        agent = demo_story.agent(self.model)
        saved = self.client.call("PUT", f"/v1/agents/{AGENT}", agent)
        tools = ", ".join(saved["tools"])
        self.screen.sent(
            f"PUT /v1/agents/{AGENT}", f"model {self.model}; {tools}; http_post asks a person"
        )

    def _scene(self, scene: Scene, *, brief: bool = False) -> str:
        """Create a run, watch it, decide what it asks; the conversation it was in."""
        self.screen.heading(scene.title)
        run = self.client.call("POST", "/v1/runs", {"agent": AGENT, "input": scene.input})
        self.screen.sent("POST /v1/runs", run["id"])
        asked: list[Document] = []
        for event in self.client.events(run["id"]):
            if not brief or event["type"] in _BRIEF:
                self.screen.event(event)
            if event["type"] == "approval.requested":
                asked.append(event["data"])
            elif event["type"] == "run.paused":
                for approval in asked:
                    self._decide(approval, scene, brief=brief)
                asked.clear()
            elif event["type"] == "tool.failed":
                raise DemoFailed(f"{event['data']['tool']} failed: {event['data']['error']}")
            elif event["type"] in ("run.failed", "run.cancelled"):
                raise DemoFailed(f"{run['id']} ended as {event['type']}: {event['data']}")
        conversation: str = run["conversation_id"]
        return conversation

    def _decide(self, shown: Document, scene: Scene, *, brief: bool) -> None:
        # The event may be cut on its way; what is signed is read whole.
        approval = self.client.call("GET", f"/v1/approvals/{shown['id']}")
        if not brief:
            self.screen.card(approval)
        canonical = self.client.offer(approval, scene.decision, **scene.members)
        if not brief:
            self.screen.sent("POST …/payload", f"{len(canonical)} bytes to sign, bound to the card")
        decided = self.client.hand_in(approval, scene.decision, canonical)
        key = self.client.person.key_id
        self.screen.sent(f"POST …/{scene.decision}", f"signed with {key}: {decided['status']}")
        if decided["effective_args"] not in (None, approval["args"]):
            self.screen.sent("  to run instead", json.dumps(decided["effective_args"]))

    def _arrived(self, count: int, *, show: bool = True) -> None:
        """Check what the outside world got in all, and show the latest of it."""
        received = self.receiver.received
        if len(received) != count:
            raise DemoFailed(f"the receiver should have got {count} orders, it got {received}")
        if show:
            self.screen.arrived(received[-1])

    def _verify(self, conversation: str) -> None:
        words = ("audit", "verify", "--conversation", conversation)
        with self.screen.waiting("verifying the log"):
            done = run_command(self.settings, *words)
        self.screen.verified(" ".join(("turngate", *words)), done.stdout + done.stderr)
        if done.returncode:
            raise DemoFailed("the log does not hold")
