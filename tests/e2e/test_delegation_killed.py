"""A server killed while a delegated worker is at work, over the public API and real processes.

Whatever the moment, the server that comes after it brings the run to the end of its uninterrupted
twin, the receiver of the worker's post has one effect under one key, and the log is sound.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal

import pytest
from typing_extensions import override

from app.cli.demo.client import Client, Person
from app.service.clock import SystemClock
from app.store.server.whereabouts import running_database
from app.trust.keys import CHANCE_BYTES, derive_signing_key
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.fault]

SCOPES = "agents:write runs:write runs:read approvals:read approvals:decide keys:write"
Moment = Literal["never", "asked", "decided", "in flight"]


@dataclass
class Receiver:
    """Keeps the keys of the posts it was sent; `answers` lets them have their answer."""

    keys: Queue[str]
    answers: Event
    url: str = ""

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").partition("/")[0]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver(Queue(), Event())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            receiver.keys.put(self.headers["idempotency-key"])
            receiver.answers.wait(END_S)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}/orders"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.answers.set()
            server.shutdown()
            thread.join()


@dataclass
class Scene:
    """One place in which servers come and go, and a person who asks and approves."""

    place: Place
    receiver: Receiver
    person: Person

    @contextmanager
    def server(self, *, is_killed: bool = False) -> Iterator[Client]:
        """A server, killed with the block or ended in peace."""
        with serving(self.place) as (address, process):
            client = Client(address, self.person)
            try:
                yield client
            finally:
                client.http.close()
                if is_killed:
                    process.kill()

    def play(self, moment: Moment) -> dict[str, Any]:
        """A run whose worker posts, with a server that is killed at that moment; the run."""
        while not self.receiver.keys.empty():
            self.receiver.keys.get()
        self.receiver.answers.clear()
        if moment != "in flight":
            self.receiver.answers.set()
        with self.server(is_killed=moment != "never") as client:
            run = self.asked(client)
            if moment in {"decided", "in flight"}:
                approve(client, paused(client, run))
            if moment == "in flight":
                self.receiver.keys.put(self.receiver.keys.get(timeout=END_S))
            if moment == "never":
                return finished(client, run)
        self.receiver.answers.set()
        with self.server() as client:
            return finished(client, run)

    def asked(self, client: Client) -> str:
        """The id of a run that waits for a person."""
        task = (
            f"call http_post {json.dumps({'url': self.receiver.url, 'body': '{}'})}\n---\nsay sent"
        )
        client.call("PUT", "/v1/agents/clerk", {"model": "script", "tools": ["http_post"]})
        client.call(
            "PUT", "/v1/agents/boss", {"model": "script", "delegates": [{"agent": "clerk"}]}
        )
        order = json.dumps({"target_agent_id": "clerk", "task": task})
        body = {"agent": "boss", "input": f"call __delegate_to {order}\n---\nsay done"}
        run: str = client.call("POST", "/v1/runs", body)["id"]
        paused(client, run)
        return run


def approve(client: Client, approvals: list[str]) -> None:
    """Approve those that wait."""
    for approval in approvals:
        shown = client.call("GET", f"/v1/approvals/{approval}")
        if shown["status"] == "pending":
            client.hand_in(shown, "approve", client.offer(shown, "approve"))


def paused(client: Client, run: str) -> list[str]:
    """What the run waits for, as soon as it waits."""
    events = client.events(run)
    return next(one["data"]["approvals"] for one in events if one["type"] == "run.paused")


def finished(client: Client, run: str) -> dict[str, Any]:
    """The run at its end, with everything approved that it asked for."""
    events = []
    for event in client.events(run):
        events.append(event)
        if event["type"] == "run.paused":
            approve(client, event["data"]["approvals"])
    return {**client.call("GET", f"/v1/runs/{run}"), "events": events}


def told(run: dict[str, Any]) -> dict[str, str]:
    """What became of each call."""
    ends = {"tool.completed", "tool.failed", "tool.settled"}
    found = [event["data"] for event in run["events"] if event["type"] in ends]
    assert len({one["call_id"] for one in found}) == len(found)
    return {one["call_id"]: str(one.get("result")) for one in found}


async def test_a_server_killed_beside_a_worker_leaves_its_effect_single(tmp_path: Path) -> None:
    with receiving() as receiver:
        settings = (f"TURNGATE_HTTP_ALLOW_HOSTS={receiver.host}", "TURNGATE_LEASE_TTL_S=1")
        place = Place(tmp_path, settings)
        key = derive_signing_key(bytes(CHANCE_BYTES - 1) + b"\1")
        scene = Scene(place, receiver, Person("acme", "alice", place.token(SCOPES), key))
        async with running_database(None, data_dir=place.data):
            with scene.server() as client:
                client.register_key("laptop", now=int(SystemClock().now().timestamp()))
            twin = scene.play("never")
            moments: tuple[Moment, ...] = ("asked", "decided", "in flight")
            for moment in moments:
                run = scene.play(moment)
                assert (run["status"], run["answer"]) == ("completed", twin["answer"]), moment
                assert told(run) == told(twin), moment
                keys = [receiver.keys.get() for _ in range(receiver.keys.qsize())]
                assert set(keys) == {f"{run['id']}:call_1_1_0/call_1_1_0"}, moment
                assert len(keys) == (2 if moment == "in flight" else 1), moment
            for words in (("rebuild",), ("audit", "verify")):
                done = place.run(*words)
                assert done.returncode == 0, done.stdout
