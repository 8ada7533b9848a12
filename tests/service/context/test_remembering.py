"""The memory write at the end of a run: when, what, and that it costs no answer (9.2, 11.K)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn, StoreClosed
from app.service.context import remembering
from app.service.context.remembering import remember
from tests.service.context.remembering import WINDOW, RememberingHouse
from tests.service.deaths import doomed, killed
from tests.support.played.memory import KeptMemory

if TYPE_CHECKING:
    from app.runctx.memory import TurnWritten
    from app.store.open import Store

ALICE = Identity("acme", "alice", "conv_1", "run_1")
TURN = ConversationTurn(user_message="secret", assistant_response="told", at=None, run="run_1")


class FailingMemory(KeptMemory):
    """Writes nothing, and says so by this exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @override
    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        raise self.error


class SlowMemory(KeptMemory):
    """Writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.let = asyncio.Event(), asyncio.Event()

    @override
    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        self.began.set()
        await self.let.wait()
        return await super().add_turn(identity, turn)


@pytest.fixture
def house(store: Store, tenant: str) -> RememberingHouse:
    return RememberingHouse.on(store, tenant)


async def test_a_turn_is_written_for_the_session_alone() -> None:
    memory = KeptMemory()
    written = await remember(memory, ALICE, TURN)
    assert written.wire() == {
        "written": True,
        "turn_id": "turn-1",
        "health": "healthy",
        "error": None,
    }
    [(place, _)] = memory.kept
    assert place == ALICE.session_scope()


ERRORS: list[tuple[Exception, str]] = [
    (RuntimeError("secret"), "internal"),
    (StoreClosed("closed"), "internal"),
    (TimeoutError(), "timeout"),
]


@pytest.mark.parametrize(("error", "code"), ERRORS)
async def test_c155_an_error_is_a_warning_and_a_fact(error: Exception, code: str) -> None:
    with capture_logs() as lines:
        written = await remember(FailingMemory(error), ALICE, TURN)
    assert written.wire() == {"written": False, "turn_id": None, "health": None, "error": code}
    [line] = lines
    assert (line["event"], line["log_level"]) == ("memory.write_failed", "warning")
    assert "secret" not in str(line)


async def test_a_write_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "WRITE_S", 0.0)
    written = await remember(SlowMemory(), ALICE, TURN)
    assert (written.written, written.error) == (False, "timeout")


async def test_cancelling_waits_for_a_write_that_began() -> None:
    memory = SlowMemory()
    async with asyncio.TaskGroup() as owner:
        writing = owner.create_task(remember(memory, ALICE, TURN))
        await memory.began.wait()
        writing.cancel()
        memory.let.set()
    assert writing.cancelled()
    assert len(memory.kept) == 1


@pytest.mark.postgres
async def test_c154_the_exchange_is_written_before_the_run_ends(house: RememberingHouse) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await house.drive(await alice.run("say hello"))
    [turn] = house.turns(run)
    assert (turn.user_message, turn.assistant_response) == ("say hello", "hello")
    assert (turn.run, turn.trust, turn.at) == (run.id, Trust.TRUSTED_USER, house.clock.now())
    assert (await house.types(run))[-2:] == ["memory.written", "run.completed"]


@pytest.mark.postgres
async def test_a_tainted_run_leaves_a_tainted_turn(house: RememberingHouse) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await house.drive(await alice.run("call fetch {}\n---\nsay done"))
    [turn] = house.turns(run)
    assert turn.trust is Trust.QUARANTINED_CONTENT


@pytest.mark.postgres
async def test_c155_a_run_completes_whatever_becomes_of_the_write(
    store: Store, tenant: str
) -> None:
    house = RememberingHouse.on(store, tenant, FailingMemory(RuntimeError("broken")))
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await house.drive(await alice.run("say hello"))
    assert run.status == "completed"
    [written] = await house.data(run, "memory.written")
    assert (written["written"], written["error"]) == (False, "internal")


SCHEMA: dict[str, Any] = {"type": "object", "required": ["n"]}
ENDS: list[tuple[str, str, dict[str, Any]]] = [
    ("no_path", "call read {}\n---\ncall read {}", {"max_steps": 1}),
    ("failed", "fail auth", {}),
    ("tokens", "usage 80 30\ncall read {}\n---\nsay x", {"limits": {"max_tokens": 100}}),
    ("output_invalid", "say no json\n---\nsay no json\n---\nsay no", {"output_schema": SCHEMA}),
]


@pytest.mark.postgres
@pytest.mark.parametrize(("name", "program", "agent"), ENDS, ids=[name for name, _, _ in ENDS])
async def test_c156_no_other_end_is_remembered(
    house: RememberingHouse, name: str, program: str, agent: dict[str, Any]
) -> None:
    alice = await house.person()
    await house.agent(**WINDOW, **agent)
    run = await house.drive(await alice.run(program))
    assert run.status == "failed"
    assert house.turns(run) == []
    assert "memory.written" not in await house.types(run)


@pytest.mark.postgres
async def test_c156_a_cancelled_run_is_not_remembered(house: RememberingHouse) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    await alice.cancel(run)
    assert (await house.drive(run)).status == "cancelled"
    assert house.turns(run) == []


@pytest.mark.postgres
async def test_c160_a_death_between_the_write_and_the_end_leaves_one_turn_and_one_end(
    house: RememberingHouse,
) -> None:
    alice = await house.person()
    await house.agent(**WINDOW)
    run = await alice.run("say hello")
    await killed(doomed(house, "run.completed", "before"), run)
    assert len(house.turns(run)) == 1
    ended = await house.drive(run)
    assert ended.status == "completed"
    [turn] = house.turns(run)
    assert ended.answer is not None
    assert turn.assistant_response == ended.answer["answer"] == "hello"
    assert house.script.requests == []
    types = await house.types(run)
    assert (types.count("memory.written"), types.count("run.completed")) == (1, 1)
