"""The commands as processes: what they refuse, what they print, and what they leave behind."""

from __future__ import annotations

import resource
import signal
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.sync.client import connect

from tests.e2e.processes import END_S, UNMEASURED, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, is_measured=True)


@dataclass(frozen=True)
class Refusal:
    id: str
    settings: tuple[str, ...]
    words: tuple[str, ...]
    code: int
    message: str


TOKEN = ("token", "--tenant", "acme", "--sub", "alice", "--scope")
REFUSALS = [
    Refusal(
        "serve with half of an issuer",
        ("TURNGATE_JWT_ISSUER=https://issuer.example",),
        ("serve",),
        2,
        "turngate: TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS come together",
    ),
    Refusal(
        "worker in production without an issuer",
        ("TURNGATE_ENV=production",),
        ("worker",),
        2,
        "turngate: production needs TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS: "
        "the development issuer is refused there",
    ),
    Refusal(
        "serve with a placeholder for a key",
        ("TURNGATE_OPENAI_API_KEY=changeme",),
        ("serve",),
        2,
        "turngate: TURNGATE_OPENAI_API_KEY is a placeholder, not a key",
    ),
    Refusal(
        "serve with a signing key that is none",
        ("TURNGATE_SIGNING_KEY=hunter2",),
        ("serve", "--port", "0"),
        2,
        "turngate: TURNGATE_SIGNING_KEY: the private key is no unencrypted PEM",
    ),
    Refusal(
        "migrate with a number that is none",
        ("TURNGATE_SOCKETS=many",),
        ("migrate",),
        2,
        "turngate: TURNGATE_SOCKETS: Input should be a valid integer, "
        "unable to parse string as an integer",
    ),
    Refusal(
        "token with a scope that opens nothing",
        (),
        (*TOKEN, "runs:read runs:own"),
        2,
        "turngate: no such scope: runs:own",
    ),
    Refusal(
        "token in production",
        (
            "TURNGATE_ENV=production",
            "TURNGATE_JWT_ISSUER=https://issuer.example",
            "TURNGATE_JWT_JWKS=https://issuer.example/keys",
        ),
        (*TOKEN, "runs:read"),
        2,
        "turngate: production takes tokens of TURNGATE_JWT_ISSUER alone",
    ),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, case: Refusal) -> None:
    place = Place(tmp_path, case.settings)
    done = place.run(*case.words)
    assert (done.returncode, done.stdout, done.stderr) == (case.code, "", case.message + "\n")


def test_the_version_is_that_of_the_package(place: Place) -> None:
    done = place.run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "turngate 0.1.0\n", "")


def test_a_port_that_is_taken_is_said_before_anything_is_started(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = place.run("serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == (
        f"turngate: cannot listen on 127.0.0.1:{port}: Address already in use;"
        " --port takes another one\n"
    )
    assert not place.data.exists()


def test_a_missing_extra_is_said_before_anything_is_started(tmp_path: Path) -> None:
    """It is as good as not installed where something else has its name."""
    (tmp_path / "obstore.py").write_text("raise ImportError")
    done = Place(tmp_path, ("TURNGATE_ARTIFACTS_BUCKET=s3://house",)).run("serve", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "turngate: TURNGATE_ARTIFACTS_BUCKET needs the extra s3: pip install 'turngate[s3]'\n"
    )
    assert not (tmp_path / "data").exists()


def test_a_database_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    url = f"postgresql://nobody@/turngate?host={tmp_path}"
    done = Place(tmp_path, (f"TURNGATE_DATABASE_URL={url}",)).run("serve", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.startswith("turngate: the database cannot be reached: ")
    assert done.stderr.count("\n") == 1


def test_a_token_is_quick(tmp_path: Path) -> None:
    """It takes 0.45 s of an idle processor; what it loads is held by the architecture tests."""
    command = [*UNMEASURED, *Place(tmp_path).command(*TOKEN, "runs:read")]
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = Place(tmp_path).run_words(command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.stdout.count(".") == 2
    assert min(spent) < 1.0


def test_a_server_tells_where_it_is_and_ends_at_a_signal(tmp_path: Path) -> None:
    """Nothing stays: no server, no Postgres; no folder was made more readable on the way."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    place = Place(private)
    process = place.start("serve", "--port", "0", "--print-token")
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    described = process.stdout.readline().split()[-1]
    process.stdout.readline()
    _, _, token = process.stdout.readline().strip().partition(f"export URL={address} TOKEN=")
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{address}/readyz").status_code == 200
    assert httpx.get(described).json()["openapi"].startswith("3.")
    assert httpx.get(f"{address}/v1/runs", headers=headers).status_code == 200
    process.send_signal(signal.SIGTERM)
    assert (process.wait(END_S), process.communicate()[0]) == (0, "")
    assert place.processes() == []
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (private, place.data)] == [0o700] * 2


def test_a_signal_closes_streams_with_1001(place: Place) -> None:
    with serving(place) as (address, process):
        token = place.token("runs:write runs:read")
        headers = {"Authorization": f"Bearer {token}"}
        made = httpx.post(f"{address}/v1/conversations", headers=headers, json={}).json()
        url = f"{address.replace('http', 'ws')}/v1/conversations/{made['id']}/stream"
        with connect(url, additional_headers=headers, proxy=None) as stream:
            stream.send('{"type":"subscribe","after":0}')
            assert '"hello"' in str(stream.recv(END_S))
            process.send_signal(signal.SIGTERM)
            for _ in stream:
                pass
            assert stream.close_code == 1001
        assert process.wait(END_S) == 0


def test_a_worker_process_drives_what_a_server_without_one_accepts(place: Place) -> None:
    with serving(place, "--no-worker") as (address, _):
        headers = {"Authorization": f"Bearer {place.token('agents:write runs:write runs:read')}"}
        worker = place.start("worker")
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            assert client.put("/v1/agents/talker", json={"model": "script"}).status_code == 201
            body = {"agent": "talker", "input": "say hello"}
            run = client.post("/v1/runs", json=body, headers={"Prefer": "wait=30"}).json()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(END_S) == 0
        worker.communicate()
    assert (run["status"], run["answer"]["answer"]) == ("completed", "hello")
    assert place.processes() == []


def test_migrating_twice_is_fine(place: Place) -> None:
    assert [place.run("migrate").returncode for _ in range(2)] == [0, 0]
    assert place.processes() == []
