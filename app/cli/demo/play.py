"""How the demo is played: three scenes of one person, one agent, and one model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.cli.demo import story
from app.cli.demo.client import Client, Person
from app.cli.demo.server import DemoFailed, run_command
from app.cli.issuing import issue
from app.service.access.development import TokenOrder
from app.service.fresh_key import fresh_key

if TYPE_CHECKING:
    from app.cli.demo.client import Document
    from app.cli.demo.receiver import Receiver
    from app.cli.demo.screen import Screen
    from app.cli.demo.story import Scene
    from app.service.clock import SystemClock
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


def newcomer(settings: Settings, address: str, clock: SystemClock) -> Client:
    """Somebody new in a tenant of their own, since a first key needs no other key's word."""
    tenant = f"demo-{clock.nonce().hex()[:8]}"
    token = issue(settings, TokenOrder(tenant, "alice", _SCOPES, (), _TOKEN_S))
    return Client(address, Person(tenant, "alice", token, fresh_key(clock)))


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
        return self.settings.model or story.SCRIPT

    def all(self, clock: SystemClock) -> None:
        """Play everything. Raises DemoFailed and Unexpected."""
        self._prepare(clock)
        conversation = self._scene(story.approved(self.model, self.receiver.url))
        self._arrived(1)
        self._verify(conversation)
        self._scene(story.denied(self.model, self.receiver.url), brief=True)
        self._arrived(1, show=False)
        self._scene(story.edited(self.model, self.receiver.url), brief=True)
        self._arrived(2)

    def _prepare(self, clock: SystemClock) -> None:
        person = self.client.person
        self.screen.heading("A key and an agent")
        key = self.client.register_key("demo", now=clock.now_s())
        self.screen.sent("POST /v1/keys", f"{key['id']} of {person.sub}, with proof, ES256")
        agent = story.agent(self.model)
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
                data = event["data"]
                why = f"{data['code']}: {data['message']}" if "code" in data else data["reason"]
                raise DemoFailed(f"{run['id']} ended as {event['type']}: {why}")
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
