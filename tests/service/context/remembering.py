"""A house whose agents remember, in a memory that a test holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn
from tests.support.played.memory import KeptMemory, OneMemory
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from app.store.open import Store
    from tests.support.service.house import Person

WINDOW: dict[str, Any] = {"memory": {"strategy": "truncation"}}
RECALLS: dict[str, Any] = {"memory": {"retrieval": "semantic"}}


class RememberingHouse(House):
    """A house with a memory; `kept` is what it holds."""

    kept: KeptMemory

    @staticmethod
    def on(store: Store, tenant: str, kept: KeptMemory | None = None) -> RememberingHouse:
        """The house of a tenant, with a window of three turns unless it has another memory."""
        memory = kept or KeptMemory(window=3)
        house = RememberingHouse(store, tenant, memories=OneMemory(memory))
        house.kept = memory
        return house

    async def remembering(
        self, alice: Person, text: str, answer: str, *, trust: Trust = Trust.TRUSTED_USER
    ) -> str:
        """A new conversation of hers with one turn that is remembered; its id."""
        run = await self.drive(await alice.run("say begun"))
        await self.kept.flush(self.identity(run))
        turn = ConversationTurn(user_message=text, assistant_response=answer, at=None, trust=trust)
        await self.kept.add_turn(self.identity(run), turn)
        return run.conversation_id

    def identity(self, run: RunRecord) -> Identity:
        """Whose memory the run works with."""
        return Identity(self.tenant, run.principal, run.conversation_id)

    def turns(self, run: RunRecord) -> list[ConversationTurn]:
        """What is remembered of the run's conversation."""
        return [turn for place, turn in self.kept.kept if place == self.identity(run)]

    @property
    def blocks(self) -> list[tuple[str, ...]]:
        """The blocks of every request that the model was sent."""
        return [tuple(request.context) for request in self.script.requests]


def content(block: str) -> Any:
    """The parsed JSON of a block."""
    return json.loads(block.splitlines()[-3])
