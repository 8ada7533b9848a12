"""Skills by meaning, over an embedder of three words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.ids import Identity
from app.runctx.skill import SkillSettings
from app.runctx.skills.meaning import SkillMeanings
from app.runctx.skills.reader import SkillReader
from tests.runctx.skills.shelf import ShelvedSkills, seeing, skill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.runctx.skill import Skill

ALICE = Identity("acme", "alice", "conv_1", "run_1")


class ThreeWords:
    """The port `Embedder`: a text points where its words `ship`, `bake` and `not` do."""

    id = "words:3"
    dimension = 3

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], *, identity: Identity) -> list[list[float]]:
        self.asked += texts
        return [[float("ship" in t) - float("not" in t), float("bake" in t), 0.1] for t in texts]


def shelf() -> list[Skill]:
    return [
        skill("release", description="ship it"),
        skill("bread", description="bake it and do not hurry"),
        skill("party", description="bake, then ship"),
    ]


async def test_the_nearest_are_first_and_what_points_away_is_left_out() -> None:
    store = ShelvedSkills(shelf())
    cards = [one.card for one in store.shelf]
    order = await SkillMeanings(ThreeWords()).order(store, cards, "ship", identity=ALICE)
    assert order == ["party", "release"]


async def test_a_revision_is_embedded_once() -> None:
    embedder, store = ThreeWords(), ShelvedSkills(shelf())
    meanings = SkillMeanings(embedder)
    cards = [one.card for one in store.shelf]
    for _ in range(2):
        await meanings.order(store, cards, "ship", identity=ALICE)
    assert embedder.asked == [
        "When to release\nship it",
        "When to bread\nbake it and do not hurry",
        "When to party\nbake, then ship",
        "ship",
        "ship",
    ]


async def test_a_changed_skill_is_embedded_anew() -> None:
    embedder, one = ThreeWords(), skill("release", description="ship it")
    meanings = SkillMeanings(embedder)
    await meanings.order(ShelvedSkills([one]), [one.card], "ship", identity=ALICE)
    changed = replace(skill("release", description="bake"), card=replace(one.card, digest="e" * 64))
    await meanings.order(ShelvedSkills([changed]), [changed.card], "ship", identity=ALICE)
    assert "When to release\nbake" in embedder.asked


async def test_a_search_fuses_both_rankings() -> None:
    store = ShelvedSkills(shelf())
    reader = SkillReader(
        store,
        ALICE,
        revision=1,
        settings=SkillSettings(),
        meanings=SkillMeanings(ThreeWords()),
    )
    found = await reader.search(seeing(), "ship", limit=2)
    assert [(one.skill.card.name, one.path) for one in found] == [
        ("release", "hybrid"),
        ("party", "hybrid"),
    ]
