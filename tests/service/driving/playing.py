"""Stories: runs of one agent, from beginning to end, in which worker processes may die."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.ids import Identity
from app.log.catalogue import PAYLOADS
from app.log.queries import LogScope
from app.log.runs import AttachmentRef
from app.policy.taint import Trust
from app.runctx.shapes import NewArtifact
from tests.service.deaths import NoSignals, process
from tests.service.questions.questioning import option
from tests.support.log.killed import DeadlyLeases, Killed, NotedLeases
from tests.support.service.house import PEOPLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from tests.support.log.killed import Moment
    from tests.support.service.house import House, Person

TELLER = "teller"


@dataclass(frozen=True)
class Point:
    """The `nth` event of a type that one process appends."""

    event: str
    nth: int
    moment: Moment


@dataclass(frozen=True, kw_only=True)
class Story:
    """A run of an agent; what asks is answered, and approved, denied or cancelled.

    `meanwhile` happens after that, before the run goes on. `attached` is a file that goes along,
    `served` are the tools of a server. The deaths of a story come before all others, which are
    played from the first event `since` on: what comes before it other stories tell.
    """

    script: str
    agent: dict[str, Any] = field(default_factory=dict)
    verdict: str = "approve"
    scope: str = "once"
    meanwhile: Callable[[House], Awaitable[None]] | None = None
    attached: bytes | None = None
    served: dict[str, str] = field(default_factory=dict)
    is_unattended: bool = False
    since: str = ""
    deaths: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Played:
    """What became of a story; `appended` are the types of what the last process appended."""

    run: RunRecord
    log: list[Event]
    appended: Sequence[str]


def points(played: Played, since: str) -> Iterable[Point]:
    """Every point at which the last process may die, from the first event of that type on."""
    seen = Counter[str]()
    for event in played.appended:
        seen[event] += 1
        if not since or seen[since]:
            yield from (Point(event, seen[event], moment) for moment in ("before", "after"))


async def play(house: House, story: Story, *deaths: Point) -> Played:
    """The run from its beginning to its end, and at each point the death of one more process."""
    run, left = await _begun(house, story), [*story.deaths, *deaths]
    leases = _leases(house, left)
    while not run.is_ended:
        try:
            worker = process(house, leases, worker=f"worker-{len(left)}", signals=NoSignals())
            await worker.drive(run)
        except Killed:
            leases = _leases(house, left[1:])
            del left[0]
            await house.free(run)
        await _answered(house, run, story)
        run = await house.read(run)
    assert not left, "nobody died"
    async with house.store.database.session(house.tenant) as session:
        log = await session.events_of(LogScope(run.conversation_id), tuple(PAYLOADS))
    return Played(run, log, leases.appended)


def _leases(house: House, deaths: Sequence[Point]) -> NotedLeases:
    if not deaths:
        return NotedLeases(house.store.leases)
    point = deaths[0]
    return DeadlyLeases(house.store.leases, point.event, point.moment, point.nth)


async def _begun(house: House, story: Story) -> RunRecord:
    house.tools.described, house.tools.served = "", story.served
    await house.agent(TELLER, **story.agent)
    alice = await house.person(scopes=PEOPLE | {"triggers:write"})
    request: dict[str, Any] = {}
    if story.attached is not None:
        request = await _with_file(house, alice, story.attached)
    return await alice.run(story.script, agent=TELLER, unattended=story.is_unattended, **request)


async def _with_file(house: House, alice: Person, content: bytes) -> dict[str, Any]:
    """A conversation in which something was said before, and a file in it."""
    said = await house.drive(await alice.run("say hi", agent=TELLER))
    place = Identity(house.tenant, said.principal, said.conversation_id)
    new = NewArtifact(
        id=house.clock.mint("art"),
        namespace="uploads",
        content=content,
        mime="text/plain",
        trust=Trust.QUARANTINED_CONTENT,
        at=house.clock.now(),
    )
    async with house.store.database.transaction(house.tenant) as tx:
        kept, _ = await tx.put_artifact(place, new)
    attached = (AttachmentRef(artifact_id=kept.id, disposition="inline"),)
    return {"conversation_id": said.conversation_id, "attachments": attached}


async def _answered(house: House, run: RunRecord, story: Story) -> None:
    """Do what the run waits for; a call of unknown outcome is ordered once more."""
    alice = await house.person()
    for question in await house.questions_of(run):
        if question.status == "pending":
            await alice.answer(question, option(0, 1), option(1, 0))
    while pending := await house.pending(run):
        if pending[0].card["risk"]["outcome_unknown"]:
            await alice.approve(pending[0])
        elif story.verdict == "cancel":
            await alice.cancel(run)
        else:
            await alice.decide(pending[0], story.verdict, scope=story.scope)
        if story.meanwhile is not None:
            await story.meanwhile(house)
