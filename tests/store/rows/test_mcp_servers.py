"""MCP servers in the store: written whole, read back as they were, pinned by version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.log.servers import McpServerRecord, McpTool
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres


def server(tenant: str, name: str = "box", **changed: Any) -> McpServerRecord:
    parameters = {"type": "object", "default": {"a\0": [1.5, None, True]}}
    whole = McpServerRecord(
        tenant=tenant,
        name=name,
        transport="http",
        url="https://mcp.example/mcp",
        command=None,
        headers={"Authorization": "Bearer sesame"},
        registered=True,
        profile={"pay": {"read_only": True}},
        tools=(
            McpTool(
                name="pay",
                description="Pays.\0",
                parameters=parameters,
                hints={"read_only": True},
                read_only=True,
                is_listed=False,
            ),
        ),
        refused=("'a b': no",),
        why_not="gone\0",
        created_at=NOON,
        listed_at=NOON,
    )
    return replace(whole, **changed)


async def test_a_server_is_read_back_as_it_was(store: Store, tenant: str) -> None:
    async with store.database.transaction(tenant) as tx:
        assert await tx.add_mcp_server(server(tenant))
        assert not await tx.add_mcp_server(server(tenant, url="https://other.example/"))
    async with store.database.session(tenant) as session:
        assert await session.mcp_servers() == [server(tenant)]
        assert await session.mcp_servers(["box", "none"]) == [server(tenant)]
        assert await session.mcp_servers(["none"]) == []
    async with store.database.session(f"{tenant}-other") as session:
        assert await session.mcp_servers() == []


async def test_a_change_is_pinned_only_on_the_version_it_was_made_from(
    store: Store, tenant: str
) -> None:
    """Of two processes that asked at once, the later one has to begin again from the other's."""
    first = server(tenant)
    async with store.database.transaction(tenant) as tx:
        await tx.add_mcp_server(first)
        assert await tx.pin_mcp_server(replace(first, why_not=None))
        assert not await tx.pin_mcp_server(replace(first, tools=()))
        (now,) = await tx.mcp_servers()
    assert now == replace(first, why_not=None, version=2)


async def test_a_pin_reaches_no_later_server_of_the_same_name(store: Store, tenant: str) -> None:
    first = server(tenant)
    later = server(tenant, created_at=NOON.replace(hour=13), registered=False)
    async with store.database.transaction(tenant) as tx:
        await tx.add_mcp_server(first)
        assert await tx.delete_mcp_server("box")
        assert not await tx.delete_mcp_server("box")
        await tx.add_mcp_server(later)
        assert not await tx.pin_mcp_server(first)
        assert await tx.mcp_servers() == [later]


def test_the_headers_are_in_no_text_about_a_server(tenant: str) -> None:
    assert "sesame" not in repr(server(tenant))
