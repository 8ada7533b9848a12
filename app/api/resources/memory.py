"""Memory of conversations: what is remembered of the caller, and forgetting it (service.md 4)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query

from app.api.edge import Reading, Writing
from app.api.routes import Routes
from app.api.wire import Document, Time
from app.log.envelope import wire_time
from app.runctx.memory import ConversationTurn
from app.runctx.text import without_surrogates
from app.service.context.remembered import Remembered

routes = Routes(tags=["memory"])


class MemoryTurn(Document):
    """A finished exchange that is remembered, and where its content came from."""

    id: str
    run_id: str
    user: str
    assistant: str
    trust: Literal["unspecified", "trusted_user", "quarantined_content"]
    at: Time | None


class Memory(Document):
    """What the next run is shown; `unfolded_turns` are in neither summary nor `recent_turns`."""

    strategy: Literal["none", "truncation", "rolling_summary"]
    health: Literal["healthy", "retry", "degraded", "recovering"]
    summary: str
    summary_trust: Literal["unspecified", "trusted_user", "quarantined_content"]
    recent_turns: list[MemoryTurn]
    tokens: int
    unfolded_turns: int


class MemoryHit(Document):
    """A turn that was found, in which conversation, and the cosine of it and the query."""

    score: float
    conversation_id: str
    turn: MemoryTurn


class MemoryHits(Document):
    """Turns, best first; `unindexed` could not be found, for they have no vector yet."""

    items: list[MemoryHit]
    top_k: int
    unindexed: int


@routes.read("/v1/conversations/{conversation_id}/memory", "get_memory", scope="memory:read")
async def get_memory(call: Reading, conversation_id: str) -> Memory:
    """What is remembered of the caller in a conversation."""
    found = await call.edge.memory.read(call.session, call.caller, conversation_id)
    return _memory_document(found)


@routes.read(
    "/v1/conversations/{conversation_id}/memory/search", "search_memory", scope="memory:read"
)
async def search_memory(
    call: Reading,
    conversation_id: str,
    *,
    # At its longest it still fits into a request line, however it is escaped.
    q: Annotated[str, Query(max_length=4096)],
    top_k: Annotated[int, Query(ge=0, le=50)] = 0,
) -> MemoryHits:
    """The caller's turns by meaning, from where their agent recalls; a `top_k` of 0 is 5."""
    found = await call.edge.memory.search(
        call.session, call.caller, conversation_id, query=q, top_k=top_k
    )
    hits = [
        MemoryHit(score=hit.score, conversation_id=hit.turn.session, turn=_turn_document(hit.turn))
        for hit in found.hits
    ]
    return MemoryHits(items=hits, top_k=found.top_k, unindexed=found.unindexed)


@routes.write(
    "DELETE",
    "/v1/conversations/{conversation_id}/memory",
    "delete_memory",
    scope="runs:write",
    status_code=204,
)
async def delete_memory(call: Writing, conversation_id: str) -> None:
    """Forget what is remembered of the caller in a conversation; its log stays."""
    await call.edge.memory.forget(call.tx, call.caller, conversation_id)


def _memory_document(found: Remembered) -> Memory:
    patch = found.patch
    return Memory.model_validate(
        {
            "strategy": patch.strategy,
            "health": found.health.value,
            "summary": without_surrogates(patch.summary),
            "summary_trust": patch.summary_trust.wire,
            "recent_turns": [_turn_document(turn) for turn in patch.recent_turns],
            "tokens": patch.tokens,
            "unfolded_turns": patch.unfolded_turns,
        }
    )


def _turn_document(turn: ConversationTurn) -> MemoryTurn:
    return MemoryTurn(
        id=turn.turn_id,
        run_id=turn.run,
        user=without_surrogates(turn.user_message),
        assistant=without_surrogates(turn.assistant_response),
        trust=turn.trust.wire,
        at=None if turn.at is None else wire_time(turn.at),
    )
