"""`turngate keys rotate`: old signatures stay valid, on processes with the old key and the new."""

from __future__ import annotations

import json
import stat
from base64 import b64decode
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
SCOPES = "agents:write runs:write runs:read"


class Client:
    """Somebody at one process."""

    def __init__(self, place: Place, address: str) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {place.token(SCOPES)}"}

    def run(self) -> str:
        """A run to its end; its conversation."""
        with self._http() as http:
            assert http.put("/v1/agents/talker", json={"model": "script"}).is_success
            order = {"agent": "talker", "input": "say hello"}
            run = http.post("/v1/runs", json=order, headers={"Prefer": "wait=30"}).json()
        assert run["status"] == "completed"
        conversation: str = run["conversation_id"]
        return conversation

    def published(self) -> list[str]:
        """The `kid`s of the service's keys."""
        with self._http() as http:
            return [key["kid"] for key in http.get("/.well-known/jwks.json").json()["keys"]]

    def _http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._address, headers=self._headers, timeout=END_S, trust_env=False
        )


def exported(place: Place, conversation: str) -> Path:
    file = place.folder / f"{conversation}.jsonl"
    done = place.run("audit", "export", "--conversation", conversation, "--out", str(file))
    assert done.returncode == 0, done.stderr
    return file


def sealed_by(file: Path) -> set[str]:
    """Whose seals are in an export."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    bodies = [json.loads(b64decode(event["body"])) for event in events if "body" in event]
    return {body["data"]["kid"] for body in bodies if body["type"] == "log.sealed"}


def test_after_a_rotation_both_keys_verify_on_two_processes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as (address, _):
        before = Client(place, address)
        first = exported(place, before.run())
        (old,) = before.published()
        done = place.run("keys", "rotate")
        assert done.returncode == 0, done.stderr
        new = done.stdout.split()[0]
        assert before.published() == [old, new]
        key_file = place.data / "service-key.pem"
        assert done.stdout == f"{new} is published and in {key_file}: restart every process\n"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        with serving(place) as (second_address, _):
            after = Client(place, second_address)
            # A worker of either process may drive a run, so both keys seal until all restarted.
            later = [exported(place, client.run()) for client in (before, after) for _ in range(3)]
            assert after.published() == [old, new]
    with serving(place) as (address, _):
        last = exported(place, Client(place, address).run())
    assert sealed_by(first) == {old}
    assert set().union(*map(sealed_by, later)) <= {old, new}
    assert sealed_by(last) == {new}
    for file in (first, *later, last):
        assert place.run("audit", "verify", str(file)).returncode == 0
    assert place.run("audit", "verify").returncode == 0


def test_a_key_of_the_setting_is_rotated_into_a_file(tmp_path: Path) -> None:
    plain = Place(tmp_path)
    out = tmp_path / "next.pem"
    with serving(plain) as (address, _):
        client = Client(plain, address)
        (old,) = client.published()
        pem = (plain.data / "service-key.pem").read_text()
        place = Place(tmp_path, (f"TURNGATE_SIGNING_KEY={pem}",))
        refused = place.run("keys", "rotate")
        assert (refused.returncode, "needs --out" in refused.stderr) == (2, True)
        done = place.run("keys", "rotate", "--out", str(out))
        assert done.returncode == 0, done.stderr
        new = done.stdout.split()[0]
        assert client.published() == [old, new]
    assert "set TURNGATE_SIGNING_KEY to what it holds" in done.stdout
    assert (plain.data / "service-key.pem").read_text() == pem
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert load_pem_private_key(out.read_bytes(), None) is not None
    with serving(Place(tmp_path, (f"TURNGATE_SIGNING_KEY={out.read_text()}",))) as (address, _):
        file = exported(plain, Client(plain, address).run())
    assert sealed_by(file) == {new}
    assert plain.run("audit", "verify", str(file)).returncode == 0


def test_a_key_of_the_data_directory_goes_nowhere_else(tmp_path: Path) -> None:
    done = Place(tmp_path).run("keys", "rotate", "--out", str(tmp_path / "next.pem"))
    assert (done.returncode, "goes without --out" in done.stderr) == (2, True)
    assert not (tmp_path / "next.pem").exists()
