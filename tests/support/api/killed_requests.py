"""A request whose process dies at a commit, and the client that then asks another process.

    told = Told(living, mortal, database, mcp_url, Point(request=3, commit=0, moment="after"))
    alice = told.person()
    answer = await told.send(alice, "put_agent", {"model": "script"}, name="helper")

Every request has an Idempotency-Key of its own. The one at the point is sent to the mortal process,
which dies, and then once more, as a client does that had no answer.
"""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest

from tests.support.api.driver import ApiDriver
from tests.support.api.world import EVERYDAY
from tests.support.log.killed import Killed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    import httpx

    from app.service.ports.database import Session
    from app.store.database import StoreDatabase
    from app.store.transactions import StoreTransaction
    from tests.support.api.world import ApiWorld, Person
    from tests.support.log.killed import Moment
    from tests.trust.signer import Signer

DESCRIPTION: Final = Path(__file__).parents[3] / "app/api/openapi.json"
_NAME: Final = re.compile(r"\b(?:([a-z]+)_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}|[0-9a-f]{64})\b")
_EVENTS: Final = """
SELECT type, run_id, turn_id, step, trust, data FROM events WHERE tenant = $1
ORDER BY conversation_id, seq"""
_TABLES: Final = """
SELECT table_name FROM information_schema.columns JOIN information_schema.tables
    USING (table_schema, table_name)
WHERE column_name = 'tenant' AND table_schema = 'public' AND table_type = 'BASE TABLE'
ORDER BY table_name"""
_ROWS: Final = """
SELECT '{table}', count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {table} t
WHERE tenant = $1"""


@dataclass(frozen=True)
class Point:
    """Right before or right after a commit of a request; both are counted from 0."""

    request: int
    commit: int
    moment: Moment


@dataclass
class DeadlyDatabase:
    """The port `Database` of a process that dies at a commit, once it is told to.

    What dies with it: nobody is told of what it committed, and no run is given to its own worker.
    """

    database: StoreDatabase
    death: Point | None = None
    commits: int = 0
    appended: set[str] = field(default_factory=set)
    """The types of what requests have appended."""

    def session(self, tenant: str) -> AbstractAsyncContextManager[Session]:
        return self.database.session(tenant)

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[StoreTransaction]:
        async with self.database.transaction(tenant) as tx:
            yield tx
            self.appended |= {event.type for batch in tx.written for event in batch.events}
            moment = None
            if self.death is not None and self.death.commit == self.commits:
                moment = self.death.moment
                tx.written.clear()
                tx.woken.clear()
            self.commits += 1
            if moment == "before":
                raise Killed
        if moment == "after":
            raise Killed

    async def ready(self) -> Mapping[str, object]:
        return await self.database.ready()


@dataclass
class Told:
    """One telling of a story by the people of a tenant, with a death at the point if there is one.

    `requests` are the operations that were sent, with the commits that each took. A client that
    `keeps_key` sends it again with what had no answer.
    """

    living: ApiWorld
    mortal: ApiWorld
    deadly: DeadlyDatabase
    tools_url: str
    point: Point | None = None
    keeps_key: bool = True
    requests: list[tuple[str, int]] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)

    def person(
        self, sub: str = "alice", *, roles: tuple[str, ...] = (), scopes: tuple[str, ...] = EVERYDAY
    ) -> Person:
        """Somebody of the tenant, who asks the living process."""
        return self.living.person(sub, roles=roles, scopes=scopes)

    async def send(
        self, person: Person, operation: str, body: Any = None, *, query: str = "", **names: str
    ) -> httpx.Response:
        """Send a write; `names` fill its path. Whoever has no answer asks once more."""
        method, template = operations()[operation]
        headers = {"Idempotency_Key": f"request-{len(self.requests)}"}
        if isinstance(body, bytes):
            headers["Content_Type"] = "application/zip" if "import" in operation else "text/plain"
        wanted = (method, template.format(**names) + query, body)
        mortal = replace(person, world=self.mortal)
        self.deadly.commits = 0
        if self.point is None or self.point.request != len(self.requests):
            answer = await mortal.ask(*wanted, **headers)
        else:
            await self._die(mortal.ask(*wanted, **headers))
            if not self.keeps_key:
                del headers["Idempotency_Key"]
            answer = await person.ask(*wanted, **headers)
        self.requests.append((operation, self.deadly.commits))
        self.answers.append((answer.status_code, answer.json() if answer.content else None))
        return answer

    async def _die(self, asking: Any) -> None:
        before = await self.rows()
        self.deadly.death = self.point
        with pytest.raises(Killed):
            await asking
        self.deadly.death = None
        assert self.point is not None
        is_there = await self.rows() != before
        assert is_there is ((self.point.commit, self.point.moment) != (0, "before"))

    async def decide(
        self, person: Person, signer: Signer, key_id: str, asked: Mapping[str, Any], **draft: Any
    ) -> str:
        """The signed decision of that person."""
        path = f"/v1/approvals/{asked['id']}/payload"
        payload = await person.post(path, {"decision": "approve"} | draft)
        assert payload.status_code == 200, payload.text
        head = {"alg": "ES256", "kid": key_id, "typ": "turngate-decision+jws"}
        return signer.jws(head, payload.json()["canonical"].encode())

    async def drive(self, person: Person, run: dict[str, Any]) -> dict[str, Any]:
        """Let a worker drive the run's conversation until nothing in it is ready."""
        return await ApiDriver.of(self.living).until_idle(person, run)

    def points(self) -> Iterator[Point]:
        """Every place to die in this story."""
        for request, (_, commits) in enumerate(self.requests):
            for commit in range(commits):
                yield Point(request, commit, "before")
                yield Point(request, commit, "after")

    async def types(self) -> list[str]:
        """The types of all events of the tenant, log by log."""
        return [event["type"] for event in await self._events()]

    async def log(self) -> list[str]:
        """Every event of the tenant, with each id and digest replaced by a number."""
        return self._named(await self._events())

    async def whole(self) -> list[str]:
        """The log, and every answer; of a batch, whatever of it had been kept before."""
        return self._named([await self._events(), [_settled(one) for one in self.answers]])

    def _named(self, told: Any) -> list[str]:
        text = orjson.dumps(told).decode().replace(self.living.tenant, "TENANT")
        seen: dict[str, str] = {}
        named = _NAME.sub(lambda found: seen.setdefault(found[0], f"{found[1]}#{len(seen)}"), text)
        return named.replace('},{"type"', '},\n{"type"').split("\n")

    async def rows(self) -> dict[str, tuple[int, str]]:
        """How many rows of the tenant each table has, and a digest of them."""
        pool = self.living.store.everyone.pool
        tables = [table for (table,) in await pool.fetch(_TABLES)]
        every = " UNION ALL ".join(_ROWS.format(table=table) for table in tables)
        found = await pool.fetch(every, self.living.tenant)
        return {table: (number, digest) for table, number, digest in found}

    async def counts(self) -> dict[str, int]:
        """How many rows of the tenant each table has."""
        return {table: number for table, (number, _) in (await self.rows()).items()}

    async def _events(self) -> list[dict[str, Any]]:
        rows = await self.living.store.everyone.pool.fetch(_EVENTS, self.living.tenant)
        events = [dict(row) | {"data": json.loads(row["data"])} for row in rows]
        for event in events:
            event["data"].pop("signature", None)
        return events


def _settled(answer: tuple[int, Any]) -> tuple[int, Any]:
    status, document = answer
    if not document or "results" not in document:
        return answer
    return status, [{**one, "persisted": None} for one in document["results"]]


@cache
def operations() -> dict[str, tuple[str, str]]:
    """Method and path of every operation that takes an Idempotency-Key, from the description."""
    paths = json.loads(DESCRIPTION.read_bytes())["paths"]
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "Idempotency" in json.dumps(operation.get("parameters", ()))
    }
