"""An answer with a form over the wire of OpenAI and of Anthropic: offered, asked again, taken."""

from __future__ import annotations

import json
from typing import Any

from app.turn.agent import BoundAgent
from tests.providers.vendors import CHAT, CLAUDE, asking
from tests.support.loopback.model_servers import Answer, call_piece, chat, chat_piece, claude
from tests.support.turn.world import World

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}
AGENT = BoundAgent(name="tester", model="m", output_schema=SCHEMA)


def told(body: dict[str, Any]) -> str:
    """The last message of a request, as text."""
    return json.dumps(body["messages"][-1])


async def test_openai_is_offered_a_function_and_told_what_was_wrong() -> None:
    prose = chat(chat_piece({"content": "three"}), chat_piece({}, finish="stop"))
    call = call_piece(0, '{"total": 3}', name="final_result", call_id="id-a")
    done = chat(call, chat_piece({}, finish="tool_calls"))
    async with asking(CHAT, prose, done) as (provider, server):
        world = World([], agent=AGENT)
        world.provider = provider
        result = await world.turn()
    assert result.text == '{"total":3}'
    (offered,) = server.asked[0].body["tools"]
    assert offered["function"]["name"] == "final_result"
    assert offered["function"]["parameters"] == SCHEMA
    assert "by calling the `final_result` tool" in told(server.asked[1].body)


async def test_anthropic_gets_the_feedback_as_the_call_s_result() -> None:
    async with asking(CLAUDE, tool_use({"sum": 3}), tool_use({"total": 3})) as (provider, server):
        world = World([], agent=AGENT)
        world.provider = provider
        result = await world.turn()
    assert (result.text, result.steps) == ('{"total":3}', 2)
    (offered,) = server.asked[0].body["tools"]
    assert (offered["name"], offered["input_schema"]) == ("final_result", SCHEMA)
    assert "missing required field(s): total" in told(server.asked[1].body)
    assert '"tool_use_id": "toolu_1"' in told(server.asked[1].body)


def tool_use(arguments: dict[str, Any]) -> Answer:
    block = {"type": "tool_use", "id": "toolu_1", "name": "final_result", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    return claude((block, [delta]), stop="tool_use")
