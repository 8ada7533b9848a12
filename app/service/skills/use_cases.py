"""Skills: written, imported, read, deleted (run-context.md 6). What they say grants nothing.

Every change is a new revision of the tenant's catalogue; a run keeps to the one it began with. The
same content again changes nothing. A deleted skill stays readable to the runs that had it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.runctx.skill import OWNED_SCOPES, Skill, SkillCard
from app.service.reach import takes_part
from app.service.refusals import FieldFault, NotFound, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.queries import Page
    from app.runctx.skill import NewSkill
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction

MAX_SKILLS: Final = 1000

log = structlog.get_logger("turngate.skills")


class Skills:
    """The tenant's skills, and those of one's own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def put(self, tx: Transaction, caller: Caller, new: NewSkill) -> tuple[Skill, bool]:
        """Create or replace a skill, and whether there was none. Raises RequestInvalid."""
        await _require_place(tx, caller, new)
        [(skill, was_there)] = await self._write(tx, caller, [new])
        return skill, not was_there

    async def add_all(
        self, tx: Transaction, caller: Caller, skills: Sequence[NewSkill]
    ) -> list[Skill]:
        """Keep the skills of an import, all in one revision. Raises RequestInvalid."""
        return [skill for skill, _ in await self._write(tx, caller, skills)]

    async def read(self, session: Session, caller: Caller, name: str) -> Skill:
        """The skill of that name that is nearest to the caller. Raises NotFound."""
        cards = [c for c in await session.skill_cards(caller.principal) if c.name == name]
        if not cards:
            raise NotFound("skill")
        return (await session.skills(caller.principal, cards))[0]

    async def page(self, session: Session, caller: Caller, page: Page) -> list[SkillCard]:
        """What the caller may see, newest first; `before` is the time and name of the last one."""
        cards = await session.skill_cards(caller.principal)
        cards.sort(key=lambda card: (card.created_at, card.name), reverse=True)
        if page.before is not None:
            time, _, name = page.before.partition("/")
            last = (datetime.fromisoformat(time), name)
            cards = [card for card in cards if (card.created_at, card.name) < last]
        return cards[: page.limit]

    async def delete(self, tx: Transaction, caller: Caller, name: str) -> None:
        """End one's own skill of that name, or else everybody's. Raises NotFound."""
        revision, _ = await tx.begin_skills_revision()
        for owner in (caller.principal, ""):
            card = (await _owned(tx, owner)).get(name)
            if card is not None:
                ended = replace(card, revision=revision, updated_at=self._clock.now())
                await tx.delete_skill(ended)
                return
        raise NotFound("skill")

    async def _write(
        self, tx: Transaction, caller: Caller, skills: Sequence[NewSkill]
    ) -> list[tuple[Skill, bool]]:
        """The skills as they are kept from now on, and whether each was there before."""
        revision, count = await tx.begin_skills_revision()
        known = {owner: await _owned(tx, owner) for owner in ("", caller.principal)}
        written: list[tuple[Skill, bool]] = []
        for new in skills:
            owner = caller.principal if new.head.scope in OWNED_SCOPES else ""
            before = known[owner].get(new.head.name)
            _require_no_pack(new, [cards.get(new.head.name) for cards in known.values()])
            skill = self._kept(new, owner=owner, revision=revision, before=before)
            if before is None:
                count += 1
            if before is None or before.digest != skill.card.digest:
                await tx.add_skill(skill, new.files)
            written.append((skill, before is not None))
        if count > MAX_SKILLS:
            raise RequestInvalid(f"a tenant has at most {MAX_SKILLS} skills")
        return written

    def _kept(self, new: NewSkill, *, owner: str, revision: int, before: SkillCard | None) -> Skill:
        digest, now = _digest(new), self._clock.now()
        is_same = before is not None and before.digest == digest
        card = (
            before
            if before is not None and is_same
            else SkillCard(
                head=new.head,
                trust=new.trust,
                owner=owner,
                conversation_id=new.conversation_id,
                revision=revision,
                digest=digest,
                created_at=now if before is None else before.created_at,
                updated_at=now,
            )
        )
        sizes = {path: len(content) for path, content in new.files.items()}
        return Skill(card=card, body=new.body, files=sizes)


async def _owned(session: Session, owner: str) -> dict[str, SkillCard]:
    return {card.name: card for card in await session.owned_skills(owner)}


async def _require_place(session: Session, caller: Caller, new: NewSkill) -> None:
    """A skill of one conversation is written by whoever takes part in it; no other names one."""
    if new.head.scope != "session":
        if new.conversation_id is None:
            return
        detail = "only a skill of scope session belongs to a conversation"
    else:
        found = await session.conversation(new.conversation_id or "")
        if found is not None and takes_part(caller, found):
            return
        detail = "a skill of scope session names a conversation of the caller's"
    raise RequestInvalid("the skill is refused", faults=(FieldFault("/conversation_id", detail),))


def _require_no_pack(new: NewSkill, known: Sequence[SkillCard | None]) -> None:
    """What was generated never takes the place of what came in a pack."""
    if new.head.origin != "generated":
        return
    if any(card is not None and card.head.origin == "pack" for card in known):
        log.warning("skill.pack_overwrite_refused", name=new.head.name)
        fault = FieldFault("/origin", "there is a skill of this name that came in a pack")
        raise RequestInvalid("a generated skill never replaces one of a pack", faults=(fault,))


def _digest(new: NewSkill) -> str:
    """The digest of all that was written; files by their own digests."""
    files = {path: sha256_hex(content) for path, content in new.files.items()}
    written: dict[str, Any] = {
        "head": asdict(new.head),
        "body": asdict(new.body),
        "files": files,
        "trust": new.trust.wire,
        "conversation_id": new.conversation_id,
    }
    return sha256_hex(canonical_bytes(written))
