"""F87: the service behind a pooler in transaction mode, with and without the direct address."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from app.errors import StoreUnavailable
from app.service.clock import SystemClock
from app.store.log.rebuild import rebuild
from app.store.open import Store
from app.store.schema.migrations import migrate
from app.store.server.poolers import check_address
from tests.docs.samples import program
from tests.e2e.processes import END_S, Place, serving
from tests.support.database.external_postgres import OLDEST, external_postgres
from tests.support.database.pgbouncer import PGBOUNCER, pgbouncer
from tests.support.database.postgres import wake
from tests.support.log.seals import SEAL
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.e2e,
    pytest.mark.skipif(
        not (OLDEST.exists() and PGBOUNCER.exists()),
        reason="Postgres 15 and PgBouncer are not both installed here",
    ),
]

_numbers = count(1)
MARK = "&pgbouncer=true"
LOGIN = "behind_pooler"
JOB = 'call mutate {"to":"a"}\n---\nsay sent'
SCOPES = "agents:write runs:write runs:read approvals:read approvals:decide keys:write"


@dataclass(frozen=True, slots=True)
class Addresses:
    """One database by its own address, and by that of the pooler."""

    direct: str
    pooled: str
    owned: str
    database: str
    folder: Path

    async def run(self, statement: str) -> Any:
        """Run a statement at the database itself; its value."""
        connection = await asyncpg.connect(self.direct)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def let_nobody_wait_for_ever(self) -> None:
        """What docs/operations.md asks of an operator."""
        for setting in ("lock_timeout = '10s'", "idle_in_transaction_session_timeout = '60s'"):
            await self.run(f"ALTER ROLE {LOGIN} IN DATABASE {self.database} SET {setting}")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Path]]:
    """A Postgres, and the folder it lies in."""
    with tempfile.TemporaryDirectory(prefix="turngate-pooled-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with external_postgres(folder) as dsn:
            outside = Addresses(dsn, "", "", "", folder)
            asyncio.run(outside.run("CREATE ROLE turngate_service"))
            asyncio.run(outside.run(f"CREATE ROLE {LOGIN} LOGIN IN ROLE turngate_service"))
            yield dsn, folder


@contextmanager
def pooled(server: tuple[str, Path], *, round_robin: bool = True) -> Iterator[Addresses]:
    """A database of one's own on the server, and a pooler before it."""
    dsn, folder = server
    name = f"pooled_{next(_numbers)}"
    asyncio.run(Addresses(dsn, "", "", name, folder).run(f"CREATE DATABASE {name}"))
    direct = urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
    place = folder / name
    place.mkdir()
    with pgbouncer(direct, place, user=LOGIN, round_robin=round_robin) as address:
        owned = urlunsplit(urlsplit(address)._replace(path=f"/{name}_owned"))
        yield Addresses(direct, address, owned, name, place)


@pytest.fixture
def addresses(server: tuple[str, Path]) -> Iterator[Addresses]:
    with pooled(server) as found:
        yield found


@pytest.fixture
def unmarked(server: tuple[str, Path]) -> Iterator[Addresses]:
    """Whoever comes gets the session that was used last."""
    with pooled(server, round_robin=False) as found:
        yield found


async def test_f87_the_main_job_behind_a_pooler(addresses: Addresses) -> None:
    await addresses.let_nobody_wait_for_ever()
    address = addresses.pooled + MARK
    await check_address(address)
    owned = addresses.owned + MARK
    assert sorted(await asyncio.gather(*(migrate(owned) for _ in range(3)))) == [
        False,
        False,
        True,
    ]
    async with Store.open(address, seal=SEAL, process="pooled") as store:
        assert (await store.database.ready())["database"] is True
        await asyncio.gather(*(main_job(store, f"tenant-{n}") for n in range(6)))
    assert await rebuild(address) == []


async def main_job(store: Store, tenant: str) -> None:
    """A run that waits for a person, and goes on with her signature."""
    house = House(store, tenant)
    alice = await house.person()
    await house.agent(approval={"mutate": "ask"})
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.answer == {"answer": "sent", "finish_reason": "goal", "tool_calls_seen": 1}
    assert house.tools.count() == 1


@pytest.mark.parametrize("is_direct", [False, True], ids=["without a direct address", "with one"])
async def test_f87_what_listens_uses_the_direct_address_or_looks_again(
    addresses: Addresses, is_direct: bool
) -> None:
    direct = addresses.direct if is_direct else None
    await migrate(addresses.direct)
    address = addresses.pooled + MARK
    async with (
        Store.open(address, seal=SEAL, process="one", direct=direct) as one,
        Store.open(address, seal=SEAL, process="two") as other,
        asyncio.TaskGroup() as tasks,
    ):
        woken = asyncio.Queue[str]()
        working = tasks.create_task(one.queue.work(woken.put, concurrency=2))
        await wake(other, "conv_first")
        assert await woken.get() == "conv_first"
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN %'"
        assert bool(await addresses.run(sessions)) is is_direct
        await wake(other, "conv_second")
        assert await woken.get() == "conv_second"
        working.cancel()


def test_f87_the_commands_behind_a_pooler(addresses: Addresses) -> None:
    asyncio.run(addresses.let_nobody_wait_for_ever())
    place = Place(
        addresses.folder,
        (
            f"TURNGATE_DATABASE_URL={addresses.pooled}{MARK}",
            f"TURNGATE_DATABASE_OWNER_URL={addresses.direct}",
        ),
    )
    with serving(place, "--no-worker") as (url, _):
        worker = place.start("worker")
        with httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {place.token(SCOPES)}"},
            trust_env=False,
            timeout=60,
        ) as http:
            assert decided_by_a_person(http) == "told"
        worker.terminate()
        worker.communicate(timeout=END_S)
        assert worker.returncode == 0
    assert place.run("audit", "verify").returncode == 0
    assert place.run("rebuild").returncode == 0


def decided_by_a_person(http: httpx.Client) -> str:
    """The answer of a run whose one call a person approved."""
    doc, key = program("docs/approving.md"), ec.derive_private_key(7, ec.SECP256R1())

    def asked(method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    now = SystemClock().now_s()
    body = doc["registration"](key, tenant="acme", sub="alice", label="laptop", now=now)
    key_id = asked("POST", "/v1/keys", body)["id"]
    spec = {"model": "script", "tools": ["clock_now"], "approval": {"clock_now": "ask"}}
    asked("PUT", "/v1/agents/clock", spec)
    order = {"agent": "clock", "input": "call clock_now {}\n---\nsay told"}
    run = asked("POST", "/v1/runs", order, Prefer="wait=30")
    approval = asked("GET", f"/v1/approvals/{run['pause']['approvals'][0]['id']}")
    path = f"/v1/approvals/{approval['id']}"
    canonical = asked("POST", f"{path}/payload", {"decision": "approve"})["canonical"]
    decision = doc["decision"](
        key, key_id, approval=approval, canonical=canonical, choice="approve"
    )
    assert asked("POST", f"{path}/approve", decision)["persisted"] is True
    last: Any = {"type": "", "seq": 0}
    while last["type"] != "run.completed":
        page = asked("GET", f"/v1/runs/{run['id']}/events?after={last['seq']}&wait=30")
        last = page["items"][-1]
    answer: str = last["data"]["answer"]["answer"]
    return answer


async def test_f87_a_pooler_that_logs_in_above_row_security_is_refused(
    addresses: Addresses,
) -> None:
    await migrate(addresses.direct)
    with pytest.raises(StoreUnavailable, match="row-level security does not bind postgres"):
        async with Store.open(addresses.owned + MARK, seal=SEAL, process="above"):
            pass


async def test_f87_sessions_that_would_wait_for_ever_are_refused(addresses: Addresses) -> None:
    with pytest.raises(StoreUnavailable, match=r"ALTER ROLE behind_pooler IN DATABASE \w+ SET"):
        await check_address(addresses.pooled + MARK)


async def test_f87_an_address_that_does_not_say_what_it_is_is_refused(unmarked: Addresses) -> None:
    await check_address(unmarked.direct)
    with pytest.raises(StoreUnavailable, match=r"add `\?pgbouncer=true`"):
        await check_address(unmarked.pooled)
