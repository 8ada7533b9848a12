"""A complete service in process, over the tests' database: people, tools that count, one worker.

    house = House(store, tenant)
    alice = await house.person("alice")
    await house.agent(approval={"mutate": "ask"})
    run = await alice.run('call mutate {"to":"a"}\n---\nsay done')
    await house.drive(run)
    await alice.approve((await house.pending(run))[0])
    await house.drive(run)

Nothing runs by itself: a run goes on where a test drives it, and time passes in `clock.let_pass`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha512
from typing import TYPE_CHECKING, Any

from app.log.envelope import NewEvent
from app.log.queries import LogScope
from app.log.records import AgentRecord, KeyRecord
from app.log.runs import ConversationUpdated
from app.service.agents.binding import Binder
from app.service.agents.mcp_servers import McpServers
from app.service.agents.spec import AgentSpec, digest_of
from app.service.approvals.use_cases import Approvals
from app.service.caller import Caller
from app.service.context.compaction import Compaction
from app.service.driving.driver import Driver, DriverSettings
from app.service.driving.expiry import Expiry
from app.service.driving.loading import Loader
from app.service.questions.use_cases import Questions
from app.service.requests import DecisionDraft, GivenAnswer, RunRequest
from app.service.runs.use_cases import Runs
from app.service.statements import Statements
from app.service.streams.wakeups import Wakeups
from app.tools.mcp.connections import McpConnections
from app.tools.toolbox import Toolbox
from app.trust.decision import DECISION_TYPE
from app.trust.jose import sign_jws
from app.trust.keys import CHANCE_BYTES, SigningKey, derive_signing_key
from app.turn.clock import LoopClock
from tests.support.clock import PlayedClock
from tests.support.log.seals import SERVICE
from tests.support.played.recorded_script import RecordedScript
from tests.support.played.summaries import PlayedSummaries
from tests.support.service.house_tools import CountingTools

if TYPE_CHECKING:
    from app.log.envelope import Event
    from app.log.records import ApprovalRecord, Lease, QuestionRecord, RunRecord
    from app.service.ports.leases import Leases
    from app.service.ports.memory import Memories
    from app.service.ports.queue import Queue
    from app.service.ports.signals import Signals
    from app.service.requests import Decided
    from app.store.open import Store

LEASE_S = 60.0
# The service's own key.
PEOPLE = frozenset({"runs:read", "runs:write", "approvals:read", "approvals:decide"})


class Unheld:
    """Nobody holds any run back."""

    async def passable(self, run_id: str) -> None:
        return


@dataclass
class Person:
    """Somebody with a token and a key."""

    house: House
    caller: Caller
    key_id: str
    key: SigningKey

    async def run(self, text: str, *, agent: str = "helper", **request: Any) -> RunRecord:
        """Ask an agent for something."""
        wanted = RunRequest(agent=agent, input=(text,), **request)
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            return await self.house.runs.create(tx, self.caller, wanted)

    async def cancel(self, run: RunRecord) -> RunRecord:
        """End a run."""
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            return await self.house.runs.cancel(tx, self.caller, run.id)

    async def payload(self, approval_id: str, **draft: Any) -> str:
        """The canonical text of a decision, from the service."""
        async with self.house.store.database.session(self.house.tenant) as session:
            signed = await self.house.approvals.payload(
                session, self.caller, approval_id, DecisionDraft(**draft)
            )
        return signed.canonical

    def sign(self, canonical: str | bytes, **header: str) -> str:
        """The compact JWS over a decision, by this person's key."""
        text = canonical if isinstance(canonical, bytes) else canonical.encode()
        head = {"alg": "ES256", "kid": self.key_id, "typ": DECISION_TYPE} | header
        return sign_jws(text, key=self.key, typ=head["typ"], kid=head["kid"])

    async def post(self, approval_id: str, verdict: Any, jws: object) -> Decided:
        """Post a signed decision."""
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            return await self.house.approvals.decide(tx, self.caller, approval_id, verdict, jws)

    async def decide(self, approval: ApprovalRecord, verdict: Any, **draft: Any) -> Decided:
        """Decide as a client does: fetch the payload, sign it, post it."""
        canonical = await self.payload(approval.id, decision=verdict, **draft)
        return await self.post(approval.id, verdict, self.sign(canonical))

    async def approve(self, approval: ApprovalRecord, **draft: Any) -> Decided:
        """Let the call run."""
        return await self.decide(approval, "approve", **draft)

    async def deny(self, approval: ApprovalRecord, **draft: Any) -> Decided:
        """Refuse the call."""
        return await self.decide(approval, "deny", **draft)

    async def answer(self, question: QuestionRecord, *given: GivenAnswer) -> QuestionRecord:
        """Answer questions."""
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            return await self.house.questions.answer(tx, self.caller, question.id, given)


@dataclass
class House:
    """One process of the service for one tenant; `leases` may be put in front of the store's.

    It takes the store's hints, or those of its own `signals`.
    """

    store: Store
    tenant: str
    clock: PlayedClock = field(default_factory=PlayedClock)
    tools: CountingTools = field(default_factory=CountingTools)
    leases: Leases | None = None
    reach: McpConnections = field(default_factory=lambda: McpConnections(LoopClock(), commands={}))
    memories: Memories | None = None
    summarizers: PlayedSummaries = field(default_factory=PlayedSummaries)
    worker: str = "worker-1"
    lease_s: float = LEASE_S
    signals: Signals | None = None

    def __post_init__(self) -> None:
        database, signals = self.store.database, self.signals or self.store.signals
        self.script = RecordedScript(self.clock)
        toolbox = Toolbox(
            self.tools.registry(),
            store=self.store,
            clock=self.clock,
            calls=self.reach,
        )
        self.statements = Statements(SERVICE, self.store.service_keys)
        self.servers = McpServers(database=database, clock=self.clock, reach=self.reach)
        self.binder = Binder(
            toolbox=toolbox,
            providers=self.script,
            servers=self.servers,
            memories=self.memories,
        )
        self.wakeups = Wakeups(self.clock)
        self.wakeups.listen(signals)
        self.questions = Questions(database=database, clock=self.clock, statements=self.statements)
        self.approvals = Approvals(database=database, clock=self.clock, binder=self.binder)
        self.runs = Runs(database=database, clock=self.clock, wakeups=self.wakeups, open_runs=1000)
        self.driver = Driver(
            database=database,
            leases=self.leases or self.store.leases,
            loader=Loader(
                database, self.binder, self.statements, Compaction(database, self.summarizers)
            ),
            clock=self.clock,
            pace=Unheld(),
            settings=DriverSettings(self.worker, self.lease_s),
        )
        self.driver.keeper.listen(signals)

    def expiry(self, queue: Queue | None = None) -> Expiry:
        """What ends whatever is overdue, by the store's queue unless it is given another."""
        return Expiry(
            queue=queue or self.store.queue,
            approvals=self.approvals,
            questions=self.questions,
            clock=self.clock,
        )

    async def person(self, sub: str = "alice", *roles: str, scopes: Any = PEOPLE) -> Person:
        """Somebody with a registered key."""
        key = derive_signing_key(sha512(sub.encode()).digest()[:CHANCE_BYTES])
        record = KeyRecord(
            id=f"key_{sub}_{self.tenant}",
            tenant=self.tenant,
            principal=sub,
            thumbprint=f"{key.public.thumbprint()}-{self.tenant}",
            public_jwk=key.public.jwk(),
            label="laptop",
            created_at=self.clock.now(),
            revoked_at=None,
        )
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.put_key(record)
        caller = Caller(self.tenant, sub, frozenset(scopes), frozenset(roles))
        return Person(self, caller, record.id, key)

    async def agent(self, name: str = "helper", **members: Any) -> None:
        """Save an agent of the script model with every tool there is."""
        spec = AgentSpec.model_validate(
            {"model": "script", "tools": self.tools.names, "approval": {}} | members
        )
        now = self.clock.now()
        record = AgentRecord(self.tenant, name, spec.document(), digest_of(spec), now, now)
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.put_agent(record)

    async def drive(self, run: RunRecord) -> RunRecord:
        """Drive the run's conversation until nothing in it is ready; the run as it is then."""
        while (lease := await self.driver.claim(run.conversation_id)) is not None:
            await self.driver.drive(lease)
        return await self.read(run)

    async def drive_once(self, run: RunRecord) -> None:
        """Claim the run's conversation, which must be free and ready, and drive it."""
        await self.driver.drive(await self.claim(run))

    async def claim(self, run: RunRecord) -> Lease:
        """The lease on the run's conversation, which must be free and ready."""
        lease = await self.driver.claim(run.conversation_id)
        assert lease is not None
        return lease

    async def read(self, run: RunRecord) -> RunRecord:
        """The run as it is."""
        async with self.store.database.session(self.tenant) as session:
            found = await session.run(run.id)
        assert found is not None
        return found

    async def run_of(self, asked: ApprovalRecord) -> RunRecord:
        """The run that an approval belongs to."""
        async with self.store.database.session(self.tenant) as session:
            found = await session.run(asked.run_id)
        assert found is not None
        return found

    async def pending(self, run: RunRecord) -> list[ApprovalRecord]:
        """The run's pending approvals, in the order of their requests."""
        return [asked for asked in await self.asked(run) if asked.status == "pending"]

    async def asked(self, run: RunRecord) -> list[ApprovalRecord]:
        """All of the run's approvals."""
        async with self.store.database.session(self.tenant) as session:
            return await session.run_approvals(run.id)

    async def questions_of(self, run: RunRecord) -> list[QuestionRecord]:
        """All of the run's questions."""
        async with self.store.database.session(self.tenant) as session:
            return await session.run_questions(run.id)

    async def events(self, run: RunRecord) -> list[Event]:
        """The run's events."""
        async with self.store.database.session(self.tenant) as session:
            scope = LogScope(run.conversation_id, run.id)
            return await session.events(scope, after=0, limit=1000)

    async def types(self, run: RunRecord) -> list[str]:
        """The types of the run's events, in order."""
        return [event.type for event in await self.events(run)]

    async def data(self, run: RunRecord, event_type: str) -> list[dict[str, Any]]:
        """The data of the run's events of one type."""
        return [e.data for e in await self.events(run) if e.type == event_type]

    async def share(self, run: RunRecord, *participants: str) -> None:
        """Let others take part in the run's conversation."""
        updated = ConversationUpdated(changed={"participants": list(participants)}, by="alice")
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.lock(run.conversation_id)
            await tx.append(run.conversation_id, [NewEvent(updated)], now=self.clock.now())

    async def be_alone(self) -> None:
        """Forget every wake-up, and give what other tests left open to a worker that never comes.

        Only for a test that lets a supervisor look for work by itself.
        """
        await self.store.everyone.pool.execute("DELETE FROM tgq.pgqueuer")
        await self.store.everyone.pool.execute(
            "UPDATE conversations SET lease_owner = 'nobody', lease_until = 'infinity',"
            " lease_generation = lease_generation + 1 WHERE tenant <> $1 AND kind = 'user'",
            self.tenant,
        )

    async def free(self, run: RunRecord) -> None:
        """Let the conversation's lease run out, as that of a dead worker does."""
        await self.store.everyone.pool.execute(
            "UPDATE conversations SET lease_until = clock_timestamp() - interval '1 s'"
            " WHERE id = $1",
            run.conversation_id,
        )
