"""Dispatch rules through the public API, on a server of its own and with a real receiver."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from app.cli.demo.receiver import Receiver
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

SCOPES = "agents:write runs:write runs:read"
KEY = "sk-verysecretkey"
RULES = [
    {"tool": "http_post", "action": "rewrite", "set": {"/body": "checked"}},
    {"tool": "files_read", "action": "redact", "pattern": "sk-[a-z]+", "text": "[key]"},
]


@dataclass(frozen=True)
class Ran:
    """A finished run of an agent with rules, what was posted, and the export of its log."""

    place: Place
    posted: list[str]
    events: list[dict[str, Any]]
    file: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with Receiver() as receiver:
        settings = (f"TURNGATE_HTTP_ALLOW_HOSTS={receiver.host}",)
        place = Place(tmp_path_factory.mktemp("rules"), settings)
        with serving(place) as (address, _):
            headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}
            with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
                run = _finished(client, receiver.url)
                events = client.get(f"/v1/runs/{run['id']}/events?limit=1000").json()["items"]
            file = place.folder / "log.jsonl"
            words = ("--conversation", run["conversation_id"], "--out", str(file))
            assert place.run("audit", "export", *words).returncode == 0
            posted = [one.body for one in receiver.received]
            yield Ran(place, posted, events, file)


def _finished(client: httpx.Client, url: str) -> dict[str, Any]:
    tools = ["http_post", "files_write", "files_read"]
    agent = {"model": "script", "tools": tools, "approval": {"*": "allow"}}
    saved = client.put("/v1/agents/clerk", json=agent | {"dispatch_rules": RULES})
    assert saved.status_code == 201, saved.text
    # The secret comes to the log by the model's own call once; what is read back is redacted.
    steps = [
        f"call http_post {json.dumps({'url': url, 'body': 'raw'})}",
        f"call files_write {json.dumps({'path': 'a', 'content': KEY})}",
        'call files_read {"path":"a"}',
        "say done",
    ]
    body = {"agent": "clerk", "input": "\n---\n".join(steps)}
    run: dict[str, Any] = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
    assert run["status"] == "completed", run
    return run


def data(ran: Ran, event_type: str) -> list[dict[str, Any]]:
    return [event["data"] for event in ran.events if event["type"] == event_type]


def test_the_receiver_got_the_rewrite(ran: Ran) -> None:
    assert ran.posted == ["checked"]


def test_the_model_and_the_stream_got_the_redaction(ran: Ran) -> None:
    (read,) = [one for one in data(ran, "tool.completed") if one["tool"] == "files_read"]
    assert (KEY in read["result"], "[key]" in read["result"]) == (False, True)
    assert [one["kind"] for one in data(ran, "dispatch.mutated")] == [
        "input_rewrite",
        "result_redaction",
    ]


def test_the_export_proves_the_mutations(ran: Ran) -> None:
    done = ran.place.run("audit", "verify", str(ran.file))
    assert (done.returncode, done.stdout.split()[0]) == (0, "sound"), done.stdout


def test_an_export_in_which_another_rule_is_named_is_not_sound(ran: Ran, tmp_path: Path) -> None:
    lines = ran.file.read_text().splitlines()
    for at, line in enumerate(lines[1:], 1):
        event = json.loads(line)
        body = b64decode(event["body"])
        if b'"dispatch.mutated"' in body:
            forged = body.replace(b"dispatch_rules/0", b"dispatch_rules/9")
            lines[at] = json.dumps(event | {"body": b64encode(forged).decode()})
            break
    file = tmp_path / "forged.jsonl"
    file.write_text("\n".join(lines) + "\n")
    done = ran.place.run("audit", "verify", str(file))
    assert done.returncode == 1
    assert "the mutation is not the service's" in done.stdout


def test_t111_a_service_that_could_not_sign_mutations_does_not_start(tmp_path: Path) -> None:
    """T111: rules could change calls, and there is no key to sign that with."""
    done = Place(tmp_path, ("TURNGATE_SIGNING_KEY=none",)).run("serve", "--port", "0")
    assert done.returncode == 2
    assert "TURNGATE_SIGNING_KEY" in done.stderr
