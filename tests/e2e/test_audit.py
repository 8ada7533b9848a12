"""`turngate audit` on a log that was really written, sound and tampered with."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest

from app.store.server.whereabouts import running_database
from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Written:
    """A conversation with one finished run, and its export."""

    place: Place
    conversation: str
    file: Path
    exported: str
    service_keys: list[dict[str, str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    place = Place(tmp_path_factory.mktemp("audit"))
    file = place.folder / "log.jsonl"
    with serving(place) as (address, _):
        headers = {"Authorization": f"Bearer {place.token('agents:write runs:write runs:read')}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            assert client.put("/v1/agents/talker", json={"model": "script"}).status_code == 201
            body = {"agent": "talker", "input": "say hello\n---\nsay no more"}
            run = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
            service_keys = client.get("/.well-known/jwks.json").json()["keys"]
        assert run["status"] == "completed"
        conversation = run["conversation_id"]
        done = place.run("audit", "export", "--conversation", conversation, "--out", str(file))
        assert done.returncode == 0, done.stderr
        yield Written(place, conversation, file, done.stdout, service_keys)


def verified(place: Place, *words: str) -> tuple[int, str]:
    """The exit code of `audit verify`, and what it printed."""
    done = place.run("audit", "verify", *words)
    return done.returncode, done.stdout + done.stderr


def test_an_export_tells_how_many_events_it_has(written: Written) -> None:
    events = len(written.file.read_text().splitlines()) - 1
    assert written.exported == f"{events} events written to {written.file}\n"


def test_an_export_brings_the_keys_that_the_service_publishes(written: Written) -> None:
    header = json.loads(written.file.read_text().splitlines()[0])
    published = [(key["kid"], key["x"], key["y"]) for key in written.service_keys]
    assert [(key["kid"], key["x"], key["y"]) for key in header["seal_keys"]] == published
    assert len(published) == 1
    assert "d" not in header["seal_keys"][0]


def test_an_export_that_cannot_be_written_says_so(written: Written, tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "log.jsonl"
    words = ("audit", "export", "--conversation", written.conversation, "--out", str(out))
    done = written.place.run(*words)
    said = f"turngate: [Errno 2] No such file or directory: '{out}'\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_export_of_nothing_leaves_what_was_there(written: Written, tmp_path: Path) -> None:
    out = tmp_path / "log.jsonl"
    out.write_text("of last year")
    words = ("audit", "export", "--conversation", "conv_of_nobody", "--out", str(out))
    done = written.place.run(*words)
    assert (done.returncode, done.stderr) == (2, "turngate: no conversation 'conv_of_nobody'\n")
    assert out.read_text() == "of last year"


def test_an_export_is_sound_without_any_database(written: Written, tmp_path: Path) -> None:
    elsewhere = Place(tmp_path)
    code, said = verified(elsewhere, str(written.file))
    assert (code, said.split()[0]) == (0, "sound")
    assert not elsewhere.data.exists()


def test_a_changed_word_in_a_file_is_found(written: Written, tmp_path: Path) -> None:
    lines = written.file.read_text().splitlines()
    event = json.loads(lines[3])
    changed = b64decode(event["body"]).replace(b"hello", b"hullo")
    assert changed != b64decode(event["body"])
    lines[3] = json.dumps(event | {"body": b64encode(changed).decode()})
    file = tmp_path / "changed.jsonl"
    file.write_text("\n".join(lines) + "\n")
    code, said = verified(written.place, str(file))
    assert code == 1
    assert "seq 3: hash does not cover body and private bytes" in said


def test_what_is_stored_is_sound(written: Written) -> None:
    code, said = verified(written.place, "--conversation", written.conversation)
    assert (code, said.split()[:2]) == (0, ["sound", f"{written.conversation}:"])


def test_every_log_is_verified_when_none_is_named(written: Written) -> None:
    code, said = verified(written.place)
    assert code == 0
    assert {line.split()[1] for line in said.splitlines()} == {
        "audit_acme:",
        f"{written.conversation}:",
    }


@dataclass(frozen=True)
class Misuse:
    id: str
    words: tuple[str, ...]
    message: str


MISUSES = [
    Misuse(
        "no such file", ("nowhere.jsonl",), "turngate: nowhere.jsonl: No such file or directory"
    ),
    Misuse(
        "no such conversation",
        ("--conversation", "conv_of_nobody"),
        "turngate: no conversation 'conv_of_nobody'",
    ),
    Misuse(
        "both",
        ("log.jsonl", "--conversation", "conv_1"),
        "turngate: give a file or a conversation, not both",
    ),
]


@pytest.mark.parametrize("case", MISUSES, ids=lambda case: case.id)
def test_misuse_is_told_apart_from_tampering(written: Written, case: Misuse) -> None:
    assert verified(written.place, *case.words) == (2, case.message + "\n")


def test_a_file_that_is_no_export_is_unreadable(written: Written, tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear auditor,\n")
    code, said = verified(written.place, str(file))
    assert (code, said.startswith(f"turngate: {file}: the first line: ")) == (2, True)


async def test_a_stored_event_that_was_removed_is_found(written: Written) -> None:
    """The end of a log can be cut without breaking its chain; its head still tells."""
    await tamper(
        written,
        "DELETE FROM events WHERE conversation_id = $1 AND seq = "
        "(SELECT max(seq) FROM events WHERE conversation_id = $1)",
    )
    code, said = verified(written.place, "--conversation", written.conversation)
    assert code == 1
    assert "head: the log ends at seq " in said


async def tamper(written: Written, statement: str) -> None:
    """What only the database's owner can do, and not without switching the guard off."""
    async with running_database(None, data_dir=written.place.data) as dsn:
        owner = await asyncpg.connect(dsn)
        try:
            async with owner.transaction():
                await owner.execute("SET LOCAL session_replication_role = replica")
                assert await owner.execute(statement, written.conversation) == "DELETE 1"
        finally:
            await owner.close()
