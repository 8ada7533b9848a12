"""How far the set of a session approval reaches, in a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

STAMP = 'call stamp {"n":1}\n---\nsay done'
ORDINARY = {
    *("local-read", "local-write", "fixed-connector-read"),
    *("arbitrary-egress", "mutate-external"),
}


async def without(house: House, *capabilities: str) -> None:
    """Grant the agent everything but these, from now on."""
    await house.agent(grant_policy={"base": sorted(ORDINARY - set(capabilities))})


async def test_t101_only_the_set_that_was_signed_last_serves(house: House) -> None:
    """The sets are not joined: what an earlier one covered asks again once it is replaced."""
    await house.agent()
    alice = await house.person()
    first = await house.drive(await alice.run(STAMP))
    talk = first.conversation_id

    async def asks() -> list[list[str]]:
        run = await house.drive(await alice.run(STAMP, conversation_id=talk))
        asked = await house.pending(run)
        for one in asked:
            await alice.approve(one, scope="session")
        await house.drive(run)
        return [one.card["missing_capabilities"] for one in asked]

    await alice.approve((await house.pending(first))[0], scope="session")
    await house.drive(first)
    assert await asks() == []
    await without(house, "local-write")
    assert await asks() == [["local-write"]]
    assert await asks() == []
    await without(house, "local-read")
    assert await asks() == [["local-read"]]
    await without(house, "local-write")
    assert await asks() == [["local-write"]]


@pytest.mark.parametrize("scopes", [("once", "session"), ("session", "once")])
async def test_where_two_must_agree_one_alone_gives_no_standing_consent(
    house: House, scopes: tuple[str, str]
) -> None:
    """Approvals add up for one call (turn.md 6.6); what lasts needs the word of both."""
    await house.agent(approvers={"count": 2})
    alice = await house.person()
    run = await house.drive(await alice.run("call stamp {}\ncall stamp {}\n---\nsay done"))
    first, _ = await house.pending(run)
    for name, scope in zip(("ann", "ben"), scopes, strict=True):
        await (await house.person(name, "approver")).approve(first, scope=scope)
    assert [one.status for one in await house.asked(run)] == ["approved", "pending"]
    async with house.store.database.session(house.tenant) as session:
        assert await session.session_approvals(run.conversation_id) == []


async def test_where_two_agree_for_the_session_it_serves(house: House) -> None:
    await house.agent(approvers={"count": 2})
    alice = await house.person()
    first = await house.drive(await alice.run(STAMP))
    (asked,) = await house.pending(first)
    for name in ("ann", "ben"):
        await (await house.person(name, "approver")).approve(asked, scope="session")
    await house.drive(first)
    again = await alice.run(STAMP, conversation_id=first.conversation_id)
    assert (await house.drive(again)).status == "completed"


@pytest.mark.parametrize("member", ["agent", "tool", "tool_definition_digest"])
async def test_of_what_waits_besides_only_the_like_is_answered_with_it(
    house: House, member: str
) -> None:
    """Another agent, tool or definition has none of it, whatever brought it into the pause."""
    await house.agent()
    alice = await house.person()
    run = await house.drive(await alice.run("call stamp {}\ncall stamp {}\n---\nsay done"))
    first, second = await house.pending(run)
    await house.store.everyone.pool.execute(
        "UPDATE approvals SET card = jsonb_set(card::jsonb, ARRAY[$2], '\"another\"')::json"
        " WHERE id = $1",
        second.id,
        member,
    )
    await alice.approve(first, scope="session")
    assert [one.status for one in await house.asked(run)] == ["approved", "pending"]
