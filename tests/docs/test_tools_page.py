"""docs/tools.md: its MCP server is one that the house can use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.docs.samples import samples
from tests.tools.mcp.servers import call, connections, listed, process, text_of

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_sample_answers(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(samples("docs/tools.md", "python")["shop"])
    server = process("shop", name="shop")
    async with connections(shop=[sys.executable, str(program)]) as known:
        tools = await listed(known, server)
        assert list(tools) == ["price"]
        assert "250" in text_of(await call(known, server, tools["price"], {"item": "tea"}))
