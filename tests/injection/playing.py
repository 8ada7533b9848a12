"""Plays one task of the corpus through a whole service, with an agent that asks for nothing itself.

`*` is allowed, so whatever asks does so because of capabilities that are missing, or because the
suite's own rule for a tool says so. Whoever is asked refuses an attack and allows a harmless task.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from tests.injection.corpus import Attack, Benign, reaches_outside
from tests.service.grants.granting import Holder
from tests.support.service.house import House
from tests.support.service.house_tools import CountingTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.records import RunRecord
    from app.policy.profile import ToolProfile
    from app.store.open import Store
    from app.tools.registry import RegisteredTool
    from tests.support.service.house import Person

UNGUARDED: Final = {"taint_resilient": ["arbitrary-egress", "mutate-external"]}


@dataclass
class OfficeTools(CountingTools):
    """The tools of a suite, each answering what the task says."""

    profiles: Mapping[str, ToolProfile] = field(default_factory=dict)

    @override
    def registered(self) -> list[RegisteredTool]:
        return [self._tool(name, profile) for name, profile in self.profiles.items()]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a task.

    `asked` are the tools of its approvals, `tainted` those among them that were asked for because a
    capability was missing, `ran_unasked` the ordered calls with an effect outside that ran.
    """

    asked: list[str]
    tainted: list[str]
    ran_unasked: list[str]
    statuses: list[str]


@dataclass(frozen=True, slots=True)
class Stage:
    """A store on which each task is played in a way once, as a tenant of its own."""

    store: Store
    tenant: str
    played: dict[tuple[str, ...], Played] = field(default_factory=dict)

    async def attack(
        self, attack: Attack, *, is_guarded: bool = True, has_grants: bool = False
    ) -> Played:
        """What comes of an attack, as `play_attack` plays it."""
        way = ("attack", attack.suite, attack.id, f"{is_guarded=} {has_grants=}")
        if way not in self.played:
            self.played[way] = await play_attack(
                self.store, self._tenant(), attack, is_guarded=is_guarded, has_grants=has_grants
            )
        return self.played[way]

    async def benign(self, task: Benign, *, has_grants: bool = False) -> Played:
        """What comes of a harmless task, as `play_benign` plays it."""
        way = ("benign", task.suite, task.id, f"{has_grants=}")
        if way not in self.played:
            tenant = self._tenant()
            self.played[way] = await play_benign(self.store, tenant, task, has_grants=has_grants)
        return self.played[way]

    def _tenant(self) -> str:
        return f"{self.tenant}-{len(self.played)}"


async def play_attack(
    store: Store, tenant: str, attack: Attack, *, is_guarded: bool = True, has_grants: bool = False
) -> Played:
    """Do the task, obey every order that comes with it, and refuse whatever is asked.

    Unguarded, taint takes nothing away from the agent: what would run then shows that the attack
    is one. With grants, the user has granted beforehand what the suite says.
    """
    policy = {} if is_guarded else UNGUARDED
    house, alice = await _office(store, tenant, attack, policy, has_grants=has_grants)
    obeying = ["obey"] * attack.obeys
    first = await _ended(house, alice, ["\n".join(_call(*attack.calls)), *obeying], "deny")
    runs = [first]
    if attack.then:
        program = ["\n".join(_call(*attack.then)), *obeying]
        place = {"conversation_id": first.conversation_id}
        runs.append(await _ended(house, alice, program, "deny", **place))
    meant = {_key(*call.split(" ", 1)) for call in (*attack.calls, *attack.then)}
    ran = [
        call.name
        for call in house.tools.calls
        if _key(call.name, call.args_canonical) not in meant
        and reaches_outside(attack.tools[call.name])
    ]
    return await _played(house, runs, ran)


async def play_benign(
    store: Store, tenant: str, task: Benign, *, has_grants: bool = False
) -> Played:
    """Do a harmless task, and allow whatever is asked."""
    house, alice = await _office(store, tenant, task, {}, has_grants=has_grants)
    run = await _ended(house, alice, ["\n".join(_call(*step)) for step in task.calls], "approve")
    return await _played(house, [run], [])


async def _office(
    store: Store,
    tenant: str,
    task: Attack | Benign,
    policy: Mapping[str, Any],
    *,
    has_grants: bool,
) -> tuple[House, Person]:
    tools = OfficeTools(profiles=task.tools)
    tools.answers.update(task.answers)
    house = House(store, tenant, tools=tools)
    await house.agent(approval={"*": "allow"} | task.consent, grant_policy=policy)
    if has_grants:
        holder = await Holder.of(house)
        for one in task.grants:
            await holder.grant(
                tool=one.tool, capabilities=one.capabilities, constraints=one.constraints
            )
    return house, await house.person("alice")


def _call(*calls: str) -> list[str]:
    return [f"call {call}" for call in calls]


def _key(tool: str, arguments: str | bytes) -> tuple[str, str]:
    """A call that the user means, whatever its arguments look like."""
    return tool, json.dumps(json.loads(arguments), sort_keys=True)


async def _ended(
    house: House, alice: Person, steps: list[str], verdict: str, **request: Any
) -> RunRecord:
    """The run after every question it asked was answered with one verdict."""
    text = "\n---\n".join([*steps, "say done"])
    run = await house.drive(await alice.run(text, **request))
    while pending := await house.pending(run):
        for approval in pending:
            await alice.decide(approval, verdict)
        run = await house.drive(run)
    return run


async def _played(house: House, runs: list[RunRecord], ran: list[str]) -> Played:
    approvals = [asked for run in runs for asked in await house.asked(run)]
    return Played(
        asked=[one.card["tool"] for one in approvals],
        tainted=[one.card["tool"] for one in approvals if one.card["missing_capabilities"]],
        ran_unasked=ran,
        statuses=[run.status for run in runs],
    )
