"""Payloads of the tenant's own log: who changed what the gate relies on. Never a secret."""

from __future__ import annotations

from typing import ClassVar

from app.log.payload import JsonObject, Payload


class Audited(Payload):
    """The resource, without secrets, and who changed it."""

    resource: JsonObject
    by: str


class KeyRegistered(Audited):
    """An approver key may sign from now on."""

    TYPE: ClassVar[str] = "key.registered"


class KeyRevoked(Audited):
    """An approver key may sign no more; what it signed stays verifiable."""

    TYPE: ClassVar[str] = "key.revoked"


class PasskeyRegistered(Audited):
    """A passkey may sign from now on."""

    TYPE: ClassVar[str] = "passkey.registered"


class PasskeyRevoked(Audited):
    """A passkey may sign no more; what it signed stays verifiable."""

    TYPE: ClassVar[str] = "passkey.revoked"


class KeysReset(Audited):
    """An administrator revoked all keys and passkeys of a principal: the next is the first."""

    TYPE: ClassVar[str] = "keys.reset"


class AgentSaved(Audited):
    """An agent was created or replaced."""

    TYPE: ClassVar[str] = "agent.saved"


class AgentDeleted(Audited):
    """An agent was deleted; its open runs go on."""

    TYPE: ClassVar[str] = "agent.deleted"


class McpSaved(Audited):
    """An MCP server was registered, or asked again for its tools."""

    TYPE: ClassVar[str] = "mcp.saved"


class McpDeleted(Audited):
    """An MCP server was removed; its tools can be called no more."""

    TYPE: ClassVar[str] = "mcp.deleted"


class TokenRevoked(Audited):
    """Tokens were revoked, by id or by subject."""

    TYPE: ClassVar[str] = "token.revoked"
