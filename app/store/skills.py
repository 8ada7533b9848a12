"""Skills: immutable revisions under a catalogue revision of the tenant (run-context.md 6).

Whoever writes takes the tenant's catalogue lock first, so a revision that can be seen is complete,
and a reader that keeps to it sees the same for ever. A deleted skill is one more revision.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog

from app.log.servers import SEPARATOR
from app.policy.taint import Trust
from app.runctx.identity import require_identity
from app.runctx.skill import Skill, SkillBody, SkillCard, SkillHead
from app.store.server.connections import storing
from app.store.texts import escape, json_text, unescape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

    from app.ids import Identity
    from app.store.server.row_security import Reader

# What search looks at, and the most of each part that it sees.
_SEEN_CHARS: Final = 65_536
_QUERY_WORDS: Final = 64
_WORD_CHARS: Final = 64

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 2))"
_REVISION: Final = "SELECT coalesce(max(revision), 0) FROM skills WHERE tenant = $1"
_COUNT: Final = """
SELECT count(*) FROM (SELECT DISTINCT ON (owner, name) is_deleted FROM skills
    WHERE tenant = $1 ORDER BY owner, name, revision DESC) AS latest WHERE NOT is_deleted"""

# One's own skill of a name hides everybody's, but nothing generated hides a pack's. Without a
# conversation those of all are seen.
_VISIBLE: Final = """
WITH latest AS (
    SELECT DISTINCT ON (owner, name) * FROM skills
    WHERE tenant = $1 AND owner IN ('', $2) AND revision <= $4
    ORDER BY owner, name, revision DESC
), visible AS (
    SELECT DISTINCT ON (name) * FROM latest
    WHERE NOT is_deleted
        AND (conversation_id IS NULL OR $3::text IS NULL OR conversation_id = $3)
    ORDER BY name, origin = 'generated', owner DESC
)
QUESTION"""
_CARD: Final = "owner, revision, conversation_id, trust, digest, head, created_at, updated_at"
_CARDS: Final = _VISIBLE.replace("QUESTION", "SELECT CARD FROM visible ORDER BY name").replace(
    "CARD", _CARD
)
_OWNED: Final = """
SELECT * FROM (SELECT DISTINCT ON (name) CARD, is_deleted FROM skills
    WHERE tenant = $1 AND owner = $2 ORDER BY name, revision DESC) AS latest
WHERE NOT is_deleted""".replace("CARD", _CARD)
_SKILLS: Final = """
SELECT CARD, body FROM skills
JOIN unnest($3::text[], $4::text[], $5::bigint[]) AS asked (by_owner, called, as_of)
    ON owner = by_owner AND name = called AND revision = as_of
WHERE tenant = $1 AND owner IN ('', $2)""".replace("CARD", _CARD)
_FILE: Final = """
SELECT files ->> $5 FROM skills
WHERE tenant = $1 AND owner = $2 AND name = $3 AND revision = $4 AND owner IN ('', $6)"""

# A word of the question becomes a query by itself, quoted by Postgres: no text is read as syntax.
_ASKED: Final = """, asked AS (
    SELECT coalesce(string_agg(word::text, ' | '), '')::tsquery AS query
    FROM unnest($5::text[]) AS text, plainto_tsquery('english', text) AS word
    WHERE numnode(word) > 0
)
SELECT name FROM visible, asked WHERE words @@ query
ORDER BY ts_rank(words, query) DESC, name"""
_MATCHING: Final = _VISIBLE.replace("\nQUESTION", _ASKED)
_SERVER_TOOLS: Final = "SELECT name, tools FROM mcp_servers WHERE tenant = $1"

_ADD: Final = """
INSERT INTO skills (tenant, owner, name, revision, conversation_id, is_deleted, origin, trust,
    digest, head, body, files, created_at, updated_at, words)
VALUES ($1, $2, $3, $4, $5, false, $6, $7, $8, $9, $10, $11, $12, $13,
    setweight(to_tsvector('english', $14), 'A') || setweight(to_tsvector('english', $15), 'B')
    || setweight(to_tsvector('english', $16), 'D'))"""
_DELETE: Final = """
INSERT INTO skills (tenant, owner, name, revision, conversation_id, is_deleted, origin, trust,
    digest, head, body, files, created_at, updated_at, words)
SELECT tenant, owner, name, $4, conversation_id, true, origin, trust, digest, head, '{}', '{}',
    created_at, $5, ''
FROM skills WHERE tenant = $1 AND owner = $2 AND name = $3 ORDER BY revision DESC LIMIT 1"""

_NEWEST: Final = 2**63 - 1

log = structlog.get_logger("turngate.skills")


class StoreSkills:
    """The skills of one tenant, on a pool or a transaction: the port `SkillStore`."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        self._reader = reader
        self._tenant = escape(tenant)

    async def revision(self) -> int:
        """The catalogue revision as it is now; 0 where there never was a skill."""
        rows = await self._rows(_REVISION)
        revision: int = rows[0][0]
        return revision

    async def cards(self, identity: Identity, *, revision: int) -> list[SkillCard]:
        """What the identity may see as of a revision, by name."""
        where = (escape(identity.user), escape(identity.session), revision)
        return [_card(row) for row in await self._rows_for(identity, _CARDS, *where)]

    async def cards_now(self, principal: str) -> list[SkillCard]:
        """What the principal may see now, in whichever conversation, by name."""
        return [_card(row) for row in await self._rows(_CARDS, escape(principal), None, _NEWEST)]

    async def owned(self, owner: str) -> list[SkillCard]:
        """The skills of an owner, or with none those of everybody, as they are now."""
        return [_card(row) for row in await self._rows(_OWNED, escape(owner))]

    async def skills(self, identity: Identity, cards: Sequence[SkillCard]) -> list[Skill]:
        """The skills of these cards in full, in their order."""
        asked = _asked(identity.user, cards)
        return _in_order(await self._rows_for(identity, _SKILLS, *asked), cards)

    async def in_full(self, principal: str, cards: Sequence[SkillCard]) -> list[Skill]:
        """The skills of these cards in full, in their order."""
        return _in_order(await self._rows(_SKILLS, *_asked(principal, cards)), cards)

    async def file(self, identity: Identity, card: SkillCard, path: str) -> bytes | None:
        """A file of a skill; None if it has no such file."""
        key = (escape(card.owner), card.name, card.revision)
        asked = (*key, escape(path), escape(identity.user))
        rows = await self._rows_for(identity, _FILE, *asked)
        return b64decode(rows[0][0]) if rows and rows[0][0] is not None else None

    async def matching(self, identity: Identity, query: str, *, revision: int) -> list[str]:
        """Names by full text over name, title, trigger, description and steps, best first."""
        words = [escape(word[:_WORD_CHARS]) for word in query.split()[:_QUERY_WORDS]]
        where = (escape(identity.user), escape(identity.session), revision)
        rows = await self._rows_for(identity, _MATCHING, *where, words)
        return [row["name"] for row in rows]

    async def server_tools(self) -> list[str]:
        """The names of all tools of the tenant's MCP servers."""
        return [
            f"{row['name']}{SEPARATOR}{tool['name']}"
            for row in await self._rows(_SERVER_TOOLS)
            for tool in orjson.loads(row["tools"])
        ]

    async def begin_revision(self) -> tuple[int, int]:
        """The next revision, for this transaction alone, and how many skills there are."""
        await self._rows(_LOCK)
        counted = await self._rows(_COUNT)
        return await self.revision() + 1, counted[0][0]

    async def add(self, skill: Skill, files: Mapping[str, bytes]) -> None:
        """Add a revision of a skill, under the catalogue lock."""
        card, body = skill.card, skill.body
        await self._rows(
            _ADD,
            escape(card.owner),
            card.name,
            card.revision,
            card.conversation_id,
            card.head.origin,
            card.trust,
            card.digest,
            json_text(asdict(card.head)),
            json_text({**asdict(body), "files": dict(skill.files)}),
            json_text({path: b64encode(content).decode() for path, content in files.items()}),
            card.created_at,
            card.updated_at,
            _seen(card.name.replace("-", " "), card.head.title),
            _seen(card.head.trigger, body.description),
            _seen(*body.steps),
        )

    async def delete(self, card: SkillCard) -> None:
        """Add the revision that ends a skill; the card's revision and time are its own."""
        await self._rows(_DELETE, escape(card.owner), card.name, card.revision, card.updated_at)

    async def _rows_for(
        self, identity: Identity, query: str, *parameters: Any
    ) -> list[asyncpg.Record]:
        """What somebody may see; nothing for whoever is of another tenant."""
        require_identity(identity, log, "skill.identity_rejected")
        is_ours = escape(identity.tenant) == self._tenant
        return await self._rows(query, *parameters) if is_ours else []

    async def _rows(self, query: str, *parameters: Any) -> list[asyncpg.Record]:
        with storing():
            rows: list[asyncpg.Record] = await self._reader.fetch(query, self._tenant, *parameters)
        return rows


def _asked(principal: str, cards: Sequence[SkillCard]) -> list[Any]:
    """The parameters that name these cards for a principal."""
    keys = [(escape(card.owner), card.name, card.revision) for card in cards]
    return [escape(principal), *(list(column) for column in zip(*keys, strict=True))]


def _in_order(rows: Sequence[asyncpg.Record], cards: Sequence[SkillCard]) -> list[Skill]:
    found = {skill.card.name: skill for skill in map(_skill, rows)}
    return [found[card.name] for card in cards]


def _seen(*texts: str) -> str:
    return escape(" ".join(texts)[:_SEEN_CHARS])


def _card(row: asyncpg.Record) -> SkillCard:
    head = orjson.loads(row["head"])
    lists = ("tags", "required_tools", "required_namespaces", "required_tags")
    return SkillCard(
        head=SkillHead(**{**head, **{name: tuple(head[name]) for name in lists}}),
        trust=Trust.from_byte(row["trust"]),
        owner=unescape(row["owner"]),
        conversation_id=row["conversation_id"],
        revision=row["revision"],
        digest=row["digest"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _skill(row: asyncpg.Record) -> Skill:
    stored = orjson.loads(row["body"])
    files = stored.pop("files")
    body = SkillBody(
        description=stored["description"],
        steps=tuple(stored["steps"]),
        preconditions=tuple(stored["preconditions"]),
        failure_modes=tuple(stored["failure_modes"]),
    )
    return Skill(card=_card(row), body=body, files=files)
