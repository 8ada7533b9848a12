"""What a server process holds of the files that pass through it: hardly anything (service.md 4)."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.e2e.processes import END_S, Place, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
LARGEST = 25 * MIB
AT_ONCE = 6
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def peak(pid: int) -> int:
    """The most memory that the process ever had, in bytes."""
    found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def content() -> AsyncIterator[bytes]:
    """As large a file as there may be, and no two the same."""
    for _ in range(LARGEST // MIB):
        yield os.urandom(MIB)


async def send(http: httpx.AsyncClient, path: str) -> str:
    answer = await http.post(path, content=content(), headers={"Content-Type": "a/b"})
    assert answer.status_code == 201
    ident: str = answer.json()["id"]
    return ident


async def fetch(http: httpx.AsyncClient, ident: str) -> int:
    """How many bytes the download has."""
    async with http.stream("GET", f"/v1/artifacts/{ident}/content") as answer:
        return sum([len(chunk) async for chunk in answer.aiter_bytes()])


async def grown(address: str, token: str, pid: int) -> int:
    """By how many bytes the peak grows while the largest files go in and out, several at once."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=address, headers=headers, timeout=END_S, trust_env=False
    ) as http:
        talk = (await http.post("/v1/conversations", json={})).json()["id"]
        path = f"/v1/artifacts?conversation_id={talk}"
        await http.post(path, content=b"warm", headers={"Content-Type": "a/b"})
        before = peak(pid)
        idents = await asyncio.gather(*(send(http, path) for _ in range(AT_ONCE)))
        sizes = await asyncio.gather(*(fetch(http, ident) for ident in idents))
    assert sizes == [LARGEST] * AT_ONCE
    return peak(pid) - before


def test_the_largest_files_several_at_once_take_a_few_pieces_of_memory(tmp_path: Path) -> None:
    """Held whole, six of them would take 150 MiB, and before their first byte was stored."""
    place = Place(tmp_path)
    with serving(place) as (address, process):
        token = place.token("runs:write runs:read artifacts:write")
        assert asyncio.run(grown(address, token, process.pid)) < 8 * MIB * AT_ONCE
