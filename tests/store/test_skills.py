"""Skills in the store: lasting revisions, owners, tenants, full text (run-context.md 6)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.errors import IdentityRequired
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.skill import Skill, SkillBody, SkillCapability, SkillCard, SkillHead, SkillSettings
from app.runctx.skills.reader import SkillReader
from tests.support.database.postgres import NOON, after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.store.open import Store

pytestmark = pytest.mark.postgres


def a_skill(
    name: str, revision: int, *, owner: str = "", step: str = "Do it.", **head: Any
) -> Skill:
    plain: dict[str, Any] = {"trigger": "On release", "origin": "pack", "scope": "tenant"}
    card = SkillCard(
        head=SkillHead(name=name, **(plain | head)),
        trust=Trust.TRUSTED_USER,
        owner=owner,
        conversation_id=None,
        revision=revision,
        digest=f"{revision:064}",
        created_at=NOON,
        updated_at=after(revision),
    )
    return Skill(card=card, body=SkillBody(steps=(step,)), files={})


async def write(store: Store, tenant: str, *skills: Skill, **files: bytes) -> None:
    """Each skill in a transaction of its own."""
    for skill in skills:
        async with store.database.transaction(tenant) as tx:
            await tx.begin_skills_revision()
            await tx.add_skill(skill, files)


def alice(tenant: str, session: str = "conv_1") -> Identity:
    return Identity(tenant, "alice", session)


async def test_a_revision_shows_the_same_for_ever(store: Store, tenant: str) -> None:
    """C134."""
    skills, first = (
        store.skills(tenant),
        a_skill("deploy", 1, step="old\0", title="A\0", tags=("x",)),
    )
    assert await skills.revision() == 0
    await write(store, tenant, first, a_skill("deploy", 2, step="new"), a_skill("audit", 3))
    async with store.database.transaction(tenant) as tx:
        assert await tx.begin_skills_revision() == (4, 2)
        await tx.delete_skill(replace(a_skill("deploy", 4).card, updated_at=after(9)))
    assert await skills.revision() == 4
    seen = {
        revision: [card.name for card in await skills.cards(alice(tenant), revision=revision)]
        for revision in range(5)
    }
    assert seen == {
        0: [],
        1: ["deploy"],
        2: ["deploy"],
        3: ["audit", "deploy"],
        4: ["audit"],
    }
    [card] = await skills.cards(alice(tenant), revision=1)
    assert await skills.skills(alice(tenant), [card]) == [first]


async def test_skills_of_other_tenants_and_users_are_not_there(store: Store, tenant: str) -> None:
    """C133."""
    await write(store, tenant, a_skill("own", 1, owner="alice"), a_skill("his", 2, owner="bob"))
    skills = store.skills(tenant)
    assert [card.name for card in await skills.cards(alice(tenant), revision=9)] == ["own"]
    his = a_skill("his", 2, owner="bob").card
    with pytest.raises(KeyError):
        await skills.skills(alice(tenant), [his])
    assert await skills.file(alice(tenant), his, "x") is None
    assert await skills.matching(alice(tenant), "release", revision=9) == ["own"]
    assert await store.skills(f"{tenant}-other").cards(alice(tenant), revision=9) == []


async def test_files_are_read_one_by_one(store: Store, tenant: str) -> None:
    skill = a_skill("deploy", 1)
    await write(store, tenant, skill, **{"a/b": b"\0\xff"})
    skills = store.skills(tenant)
    assert await skills.file(alice(tenant), skill.card, "a/b") == b"\0\xff"
    assert await skills.file(alice(tenant), skill.card, "a\0") is None


async def test_writers_at_once_get_a_revision_each(store: Store, tenant: str) -> None:
    async def add(name: str) -> None:
        async with store.database.transaction(tenant) as tx:
            revision, _ = await tx.begin_skills_revision()
            await tx.add_skill(a_skill(name, revision), {})

    await asyncio.gather(*(add(f"skill-{n}") for n in range(6)))
    cards = await store.skills(tenant).cards(alice(tenant), revision=6)
    assert sorted(card.revision for card in cards) == [1, 2, 3, 4, 5, 6]


async def test_full_text_ranks_names_and_titles_before_steps(store: Store, tenant: str) -> None:
    """C138."""
    await write(
        store,
        tenant,
        a_skill("one", 1, step="certificates are rotated"),
        a_skill("two", 2, title="Rotate a certificate"),
        a_skill("three", 3),
    )
    skills = store.skills(tenant)
    asked = "rotating certificates' & !( \0"
    assert await skills.matching(alice(tenant), asked, revision=9) == ["two", "one"]
    assert await skills.matching(alice(tenant), "the of", revision=9) == []
    assert await skills.matching(alice(tenant), "rotate", revision=1) == ["one"]


@pytest.mark.parametrize("missing", ["tenant", "user", "session"])
async def test_nothing_is_read_without_an_identity(
    store: Store, tenant: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """C128."""
    blank = replace(alice(tenant), **{missing: " "})
    reader = SkillReader(store.skills(tenant), blank, revision=1, settings=SkillSettings())
    with pytest.raises(IdentityRequired, match=missing):
        await reader.directory(blank, SkillCapability())
    with pytest.raises(IdentityRequired, match=missing):
        await reader.search(SkillCapability(), "x", limit=1)
    assert "skill.identity_rejected" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["tenant", "user", "session"])
async def test_the_store_itself_reads_nothing_without_an_identity(
    store: Store, tenant: str, missing: str
) -> None:
    """run-context.md 2: in every store call, and with a notice."""
    await write(store, tenant, a_skill("deploy", 1), **{"a/b": b"x"})
    skills, blank = store.skills(tenant), replace(alice(tenant), **{missing: "\t"})
    card = a_skill("deploy", 1).card
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: skills.cards(blank, revision=1),
        lambda: skills.skills(blank, [card]),
        lambda: skills.matching(blank, "release", revision=1),
        lambda: skills.file(blank, card, "a/b"),
    ]
    for read in reads:
        with capture_logs() as lines, pytest.raises(IdentityRequired, match=missing):
            await read()
        assert [line["event"] for line in lines] == ["skill.identity_rejected"]


async def test_whoever_is_of_another_tenant_finds_nothing(store: Store, tenant: str) -> None:
    """C133, in a store that was opened for one tenant and is asked for another's."""
    await write(store, tenant, a_skill("deploy", 1), **{"a/b": b"x"})
    skills, stranger = store.skills(tenant), alice(f"{tenant}-other")
    assert await skills.cards(stranger, revision=1) == []
    assert await skills.matching(stranger, "release", revision=1) == []
    assert await skills.file(stranger, a_skill("deploy", 1).card, "a/b") is None
