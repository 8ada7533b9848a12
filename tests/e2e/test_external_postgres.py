"""The main job on a Postgres of somebody else's, of the oldest version that is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.store.log.rebuild import rebuild
from app.store.open import Store
from app.store.schema.migrations import migrate
from tests.support.database.external_postgres import OLDEST, postgres_15
from tests.support.log.seals import SEAL
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.e2e,
    pytest.mark.skipif(not OLDEST.exists(), reason="Postgres 15 is not installed here"),
]

JOB = 'call mutate {"to":"a"}\n---\nsay sent'


@pytest.fixture
def external_dsn() -> Iterator[str]:
    """A server with an empty database."""
    with postgres_15() as dsn:
        yield dsn


async def test_the_main_job_runs_on_an_external_postgres_15(external_dsn: str) -> None:
    assert await migrate(external_dsn)
    assert not await migrate(external_dsn)
    async with Store.open(external_dsn, seal=SEAL, process="process-15") as store:
        assert (await store.database.ready())["database"] is True
        house = House(store, "acme")
        alice = await house.person()
        await house.agent()
        run = await house.drive(await alice.run(JOB))
        await alice.approve((await house.pending(run))[0])
        run = await house.drive(run)
        assert run.answer == {"answer": "sent", "finish_reason": "goal", "tool_calls_seen": 1}
        assert house.tools.count() == 1
    assert await rebuild(external_dsn) == []
