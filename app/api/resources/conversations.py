"""Conversations: create, change, read, list, and what was said in them (service.md 4)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, page_of, read_seq
from app.api.routes import Routes
from app.api.wire import Body, Document, Time
from app.log.envelope import wire_time
from app.log.records import ConversationRecord
from app.service.members import Metadata, Name, require_printable
from app.service.runs.conversations import ConversationRequest, Message

routes = Routes(tags=["conversations"])


Title = Annotated[str, Field(max_length=500), AfterValidator(require_printable)]
People = Annotated[list[Name], Field(max_length=1000)]


class CreateConversation(Body):
    """A conversation to be opened; it belongs to the caller."""

    title: Title | None = None
    participants: People = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)


class UpdateConversation(Body):
    """What is to change; a member that is absent stays."""

    title: Title | None = None
    participants: People = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)


class Conversation(Document):
    """Ordered runs that share history."""

    id: str
    title: str | None
    principal: str
    participants: list[str]
    head_seq: int
    tainted: bool
    active_run_id: str | None
    metadata: dict[str, JsonValue]
    created_at: Time


class ConversationList(Document):
    """A page of conversations, newest first."""

    items: list[Conversation]
    next_cursor: str | None


class ConversationMessage(Document):
    """One message; its parts are those of the `message.*` event, tagged by `type`."""

    id: str
    run_id: str
    seq: int
    role: Literal["user", "assistant"]
    content: list[dict[str, JsonValue]]
    trust: Literal["unspecified", "trusted_user", "quarantined_content"]
    at: Time


class MessageList(Document):
    """A page of messages, ascending by seq."""

    items: list[ConversationMessage]
    next_cursor: str | None


@routes.write(
    "POST", "/v1/conversations", "create_conversation", scope="runs:write", status_code=201
)
async def create_conversation(call: Writing, body: CreateConversation) -> Conversation:
    """Open a conversation."""
    request = ConversationRequest(body.title, tuple(body.participants), body.metadata)
    opened = await call.edge.conversations.create(call.tx, call.caller, request)
    return _conversation_document(opened)


@routes.read("/v1/conversations", "list_conversations", scope="runs:read")
async def list_conversations(
    call: Reading, *, limit: Limit = 50, cursor: Cursor = None
) -> ConversationList:
    """Conversations in reach, newest first."""
    page = page_of(limit, cursor)
    found = await call.edge.conversations.page(call.session, call.caller, page)
    shown, more = cut_page(found, limit, lambda conversation: conversation.id)
    return ConversationList(
        items=[_conversation_document(item) for item in shown], next_cursor=more
    )


@routes.read("/v1/conversations/{conversation_id}", "get_conversation", scope="runs:read")
async def get_conversation(call: Reading, conversation_id: str) -> Conversation:
    """One conversation."""
    found = await call.edge.conversations.read(call.session, call.caller, conversation_id)
    return _conversation_document(found)


@routes.write(
    "PATCH", "/v1/conversations/{conversation_id}", "update_conversation", scope="runs:write"
)
async def update_conversation(
    call: Writing, conversation_id: str, body: UpdateConversation
) -> Conversation:
    """Change a conversation; its principal alone may."""
    changed = await call.edge.conversations.update(
        call.tx,
        call.caller,
        conversation_id=conversation_id,
        changed=body.model_dump(mode="json", exclude_unset=True),
    )
    return _conversation_document(changed)


@routes.read("/v1/conversations/{conversation_id}/messages", "list_messages", scope="runs:read")
async def list_messages(
    call: Reading, conversation_id: str, *, limit: Limit = 50, cursor: Cursor = None
) -> MessageList:
    """What was said, ascending by seq."""
    found = await call.edge.conversations.messages(
        call.session,
        call.caller,
        conversation_id=conversation_id,
        after=read_seq(cursor),
        limit=limit + 1,
    )
    shown, more = cut_page(found, limit, lambda message: str(message.seq))
    return MessageList(items=[_message_document(item) for item in shown], next_cursor=more)


def _conversation_document(conversation: ConversationRecord) -> Conversation:
    """How a conversation is shown."""
    return Conversation(
        id=conversation.id,
        title=conversation.title,
        principal=conversation.principal,
        participants=list(conversation.participants),
        head_seq=conversation.head_seq,
        tainted=conversation.tainted,
        active_run_id=conversation.active_run_id,
        metadata=conversation.metadata,
        created_at=wire_time(conversation.created_at),
    )


def _message_document(message: Message) -> ConversationMessage:
    return ConversationMessage.model_validate(message, from_attributes=True)
