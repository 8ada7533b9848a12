"""One browser, one service that allows our page's origin, and that page, for all tests here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from app.service.access.development import TokenOrder, development_issuer
from app.service.clock import SystemClock
from app.store.keys.private_file import kept
from tests.architecture.sources import ROOT
from tests.browser.chromium import chromium
from tests.e2e.processes import END_S, UNMEASURED, Place, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.browser.chromium import Browser

SCOPES = (
    *("agents:read", "agents:write", "runs:read", "runs:write"),
    *("approvals:read", "approvals:decide", "keys:write"),
)


@dataclass(frozen=True)
class House:
    """Where the service and the pages are."""

    url: str
    site: str
    """The origin that the service allows."""
    stranger: str
    """Another origin of the same files, which it does not."""
    place: Place

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def token(self, sub: str) -> str:
        """A token of the tenant `acme`, by the issuer of this place, without a process for each."""
        clock = SystemClock()
        issuer = development_issuer(self.place.data, clock, kept=kept)
        order = TokenOrder("acme", sub, SCOPES, (), 3600)
        return issuer.token(order, audience="turngate", clock=clock)

    def http(self, token: str) -> httpx.Client:
        """A program that calls the service."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=END_S, trust_env=False)

    def run(self, token: str, program: str, **agent: Any) -> str:
        """A new run of the script model; its id."""
        with self.http(token) as api:
            spec = {"model": "script", "max_steps": 200} | agent
            api.put("/v1/agents/clerk", json=spec).raise_for_status()
            order = {"agent": "clerk", "input": program}
            ident: str = api.post("/v1/runs", json=order).raise_for_status().json()["id"]
        return ident

    def events(self, token: str, run: str) -> list[dict[str, Any]]:
        """The run's events, from the pages."""
        with self.http(token) as api:
            page = api.get(f"/v1/runs/{run}/events?limit=1000").raise_for_status().json()
        events: list[dict[str, Any]] = page["items"]
        return events


@pytest.fixture(scope="session")
def sites() -> Iterator[tuple[str, str]]:
    """Two origins of docs/examples, served as its README says."""
    words = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    started = [
        subprocess.Popen(
            [*UNMEASURED, *words, "--directory", str(ROOT / "docs/examples")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        first, second = (_origin(process) for process in started)
        yield first, second
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=END_S)


def numbered(origin: str) -> str:
    """Host and port of an origin, by its address: a name may have two."""
    return f"127.0.0.1:{origin.rpartition(':')[2]}"


def _origin(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    port = process.stdout.readline().partition(" port ")[2].split()[0]
    return f"http://localhost:{port}"


@pytest.fixture(scope="session")
def house(sites: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    settings = (
        f"TURNGATE_ALLOWED_ORIGINS={sites[0]}",
        "TURNGATE_RP_ID=localhost",
        # What tools fetch here comes from the stranger's pages.
        f"TURNGATE_HTTP_ALLOW_HOSTS={numbered(sites[1])}",
    )
    place = Place(tmp_path_factory.mktemp("browser"), settings)
    with serving(place) as (url, _):
        yield House(url, *sites, place)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened
