"""Notices are counted by name as they are logged, and each that is specified is written."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from app.api.notices import NOTICES, counted_notices
from app.errors import IdentityRequired
from app.ids import Identity
from app.runctx.assemble import Sources, new_run_context
from app.runctx.attach import resolve_input_artifacts
from app.runctx.fetch import fetch_memory_blocks
from app.runctx.memory import (
    Health,
    MemorySettings,
    MemoryState,
    RecallSettings,
    SpilledRange,
)
from app.runctx.skill import NewSkill, SkillBody, SkillCapability, SkillHead, SkillSettings
from app.runctx.skills.reader import SkillReader
from app.service.refusals import RequestInvalid
from app.service.skills.use_cases import Skills
from app.store.memory.folding import Folding
from app.store.memory.rolling import RollingMemory
from tests.service.context.test_compaction import SOON, TASK, reading
from tests.store.memory.test_plain import said
from tests.support.database.postgres import NOON
from tests.support.played.summaries import PlayedSummaries
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from app.store.open import Store


def logged(*events: object) -> None:
    """Log records as structlog hands them to the standard library."""
    for event in events:
        logging.getLogger("turngate.test").warning(event)


def test_a_notice_is_counted_while_a_house_is_open() -> None:
    registry = CollectorRegistry()
    notice = {"event": "memory.identity_rejected"}
    with counted_notices(registry):
        logged(notice, {"event": "lease.lost"}, "memory.identity_rejected", notice)
    logged(notice)
    told = generate_latest(registry).decode()
    assert 'turngate_notices_total{notice="memory.identity_rejected"} 2.0' in told
    assert 'turngate_notices_total{notice="memory.recovery_dropped"} 0.0' in told
    assert "lease.lost" not in told


@dataclass(frozen=True)
class Place:
    """A store, and somebody who is not told apart from everybody else."""

    store: Store
    tenant: str

    @property
    def alice(self) -> Identity:
        return Identity(self.tenant, "alice", f"conv-{self.tenant}")

    @property
    def nobody(self) -> Identity:
        return replace(self.alice, user=" ")

    def rolling(
        self, summaries: PlayedSummaries | None = None, **settings: Any
    ) -> tuple[RollingMemory, Folding]:
        played = summaries or PlayedSummaries()
        folding = Folding(self.store.pool, self.store.everyone, played.of)
        wanted = MemorySettings(strategy="rolling_summary", **settings)
        memory = RollingMemory(self.store.pool, wanted, folding=folding, model="script")
        return memory, folding


async def fetch_for_nobody(at: Place) -> None:
    memory, _ = at.rolling()
    with suppress(IdentityRequired):
        await fetch_memory_blocks(memory, at.nobody, query="hi", recall=RecallSettings())


async def remember_for_nobody(at: Place) -> None:
    with suppress(IdentityRequired):
        await at.rolling()[0].add_turn(at.nobody, said(1))


async def begin_for_nobody(at: Place) -> None:
    with suppress(IdentityRequired):
        await new_run_context(Sources(), at.nobody, goal="hi", now=NOON)


async def list_skills_for_nobody(at: Place) -> None:
    skills = at.store.skills(at.tenant)
    reader = SkillReader(skills, at.nobody, revision=0, settings=SkillSettings())
    with suppress(IdentityRequired):
        await reader.directory(at.nobody, SkillCapability())


async def read_skills_for_nobody(at: Place) -> None:
    with suppress(IdentityRequired):
        await at.store.skills(at.tenant).cards(at.nobody, revision=0)


async def attach_for_nobody(at: Place) -> None:
    with suppress(IdentityRequired):
        await resolve_input_artifacts(None, at.nobody, ids=["art_1"])


async def read_a_file_for_nobody(at: Place) -> None:
    with suppress(IdentityRequired):
        await at.store.artifacts.get_ref(at.nobody, "art_1")


async def fail_to_fold(at: Place) -> None:
    # A look takes whatever waits in the database; what earlier tests left there is not meant.
    await at.store.everyone.pool.execute("DELETE FROM memory_state")
    summaries = PlayedSummaries()
    summaries.answers = [ValueError("no")]
    memory, folding = at.rolling(summaries)
    await memory.import_state(at.alice, waiting(Health.HEALTHY))
    await folding.look()


async def fold_nothing_for_long(at: Place) -> None:
    memory, _ = at.rolling(recovery_backlog_max=1)
    await memory.import_state(at.alice, waiting(Health.DEGRADED))
    await memory.add_turn(at.alice, said(6))


def waiting(health: Health) -> MemoryState:
    """Five turns, the first of which waits to be folded."""
    turns = [said(number) for number in range(1, 6)]
    pending = (SpilledRange(1, 1),)
    return MemoryState(strategy="rolling_summary", turns=turns, health=health, pending=pending)


async def generate_over_a_pack(at: Place) -> None:
    house = House(at.store, at.tenant)
    alice, skills = await house.person(), Skills(house.clock)
    for origin in ("pack", "generated"):
        head = SkillHead(name="deploy", trigger="On release", origin=origin, scope="tenant")
        async with at.store.database.transaction(at.tenant) as tx:
            new = NewSkill(head=head, body=SkillBody(steps=("Do it.",)))
            with suppress(RequestInvalid):
                await skills.put(tx, alice.caller, new)
    async with at.store.database.session(at.tenant) as session:
        assert (await skills.read(session, alice.caller, "deploy")).card.head.origin == "pack"


async def fail_to_compact(at: Place) -> None:
    house = House(at.store, at.tenant)
    alice = await house.person()
    await house.agent(**SOON)
    house.summarizers.answers = [RuntimeError("no")]
    house.script.program = reading(5)
    assert (await house.drive(await alice.run(TASK))).status == "completed"


# From run-context.md 2, 5.2, 6 and 9.3, where a notice is named.
CASES: list[tuple[str, Callable[[Place], Awaitable[None]]]] = [
    ("memory.identity_rejected", fetch_for_nobody),
    ("memory.identity_rejected", remember_for_nobody),
    ("memory.identity_rejected", begin_for_nobody),
    ("skill.identity_rejected", list_skills_for_nobody),
    ("skill.identity_rejected", read_skills_for_nobody),
    ("artifact.identity_rejected", attach_for_nobody),
    ("artifact.identity_rejected", read_a_file_for_nobody),
    ("memory.health_changed", fail_to_fold),
    ("memory.recovery_dropped", fold_nothing_for_long),
    ("skill.pack_overwrite_refused", generate_over_a_pack),
    ("history.compaction_failed", fail_to_compact),
]


@pytest.fixture
def as_served() -> Iterator[None]:
    """Structlog hands its records on, as in a process that serves."""
    structlog.configure(
        processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    yield
    structlog.reset_defaults()


@pytest.mark.postgres
@pytest.mark.usefixtures("as_served")
@pytest.mark.parametrize(
    ("notice", "act"), CASES, ids=[f"{notice}-{act.__name__}" for notice, act in CASES]
)
async def test_each_notice_is_written_and_counted_once(
    store: Store, tenant: str, notice: str, act: Callable[[Place], Awaitable[None]]
) -> None:
    registry = CollectorRegistry()
    with counted_notices(registry):
        await act(Place(store, tenant))
    counted = {
        name: registry.get_sample_value("turngate_notices_total", {"notice": name})
        for name in NOTICES
    }
    assert {name for name, times in counted.items() if times} == {notice}
    assert counted[notice] == 1


def test_every_notice_that_is_counted_has_its_act() -> None:
    assert {notice for notice, _ in CASES} == NOTICES
    assert len(NOTICES) == 7
