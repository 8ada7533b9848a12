"""Which servers an agent's tools are about, as far as their names can tell."""

from __future__ import annotations

import pytest

from app.service.agents.mcp_spec import servers_named


@pytest.mark.parametrize(
    ("entries", "servers"),
    [
        (["http_post", "ask_question", "__delegate_to"], []),
        (["github:*"], ["github"]),
        (["github__search"], ["github"]),
        (["github__a__b", "github:*", "a-1:*"], ["a-1", "github"]),
        (["git hub:*", "github:", "github__", "GitHub__x"], []),
    ],
)
def test_servers_are_named_by_entries(entries: list[str], servers: list[str]) -> None:
    assert servers_named(entries) == servers
