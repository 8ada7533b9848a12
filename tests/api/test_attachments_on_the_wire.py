"""Attachments, from the upload to the bytes that a vendor's server gets (run-context.md 4.5)."""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint
from tests.api.resources.test_artifacts import conversation, upload
from tests.providers.native import FILE_PART, GONE, SAID, UPLOADED
from tests.support.api.driver import ApiDriver, data_of
from tests.support.clock import PlayedClock
from tests.support.loopback.model_servers import call_piece, chat, chat_piece, model_server, refused
from tests.support.loopback.search_servers import CLAUDE, OPENAI, SAYING, SILENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.api.world import ApiWorld, Person
    from tests.support.loopback.model_servers import Answer, ModelServer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

PNG = b"\x89PNG\r\n\x1a\n a picture \xff\x00"
PDF = b"%PDF-1.7 \xff\x00 a plan"
ENCODED = base64.b64encode(PNG).decode()
# How each vendor's API has an image's bytes: OpenAI's in a URL, Anthropic's beside their type.
INLINE: dict[str, dict[str, Any]] = {
    OPENAI: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
    CLAUDE: {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": ENCODED},
    },
}
CALLING = {
    OPENAI: chat(
        call_piece(0, "{}", name="clock_now", call_id="call_1"),
        chat_piece({}, finish="tool_calls"),
    ),
    CLAUDE: SILENT[CLAUDE],
}
VENDORS = pytest.mark.parametrize("model", [OPENAI, CLAUDE])


@asynccontextmanager
async def ran(
    world: ApiWorld, model: str, file: tuple[bytes, str], *answers: Answer, **hint: str
) -> AsyncIterator[tuple[Person, dict[str, Any], ModelServer]]:
    """A run with one file, whose model is served here, driven to its end."""
    alice = world.person()
    talk = await conversation(alice)
    content, mime = file
    kept = await upload(alice, talk, content, query="&filename=a.bin", Content_Type=mime)
    attached = [{"artifact_id": kept.json()["id"], **hint}]
    await alice.agent(model=model, tools=["clock_now"])
    async with model_server(*answers) as server:
        places = {"openai": f"{server.url}/v1", "anthropic": server.url}
        vendors = {vendor: Endpoint("key", place) for vendor, place in places.items()}
        models = ProviderDirectory(PlayedClock(), vendors=vendors)
        try:
            drives = ApiDriver.of(world, providers=models)
            run = await alice.run(input="look", conversation_id=talk, attachments=attached)
            yield alice, await drives.until_idle(alice, run), server
        finally:
            await models.aclose()


def holds(body: dict[str, Any], part: dict[str, Any]) -> bool:
    """Whether one of the request's messages has exactly this part."""
    said = [one["content"] for one in body.get("input") or body["messages"] if "content" in one]
    parts = [found for one in said if isinstance(one, list) for found in one]
    return any({k: found.get(k) for k in part} == part for found in parts)


@VENDORS
async def test_c98_the_bytes_of_an_image_go_along_in_the_first_step_alone(
    world: ApiWorld, model: str
) -> None:
    answers = CALLING[model], SAYING[model]
    async with ran(world, model, (PNG, "image/png"), *answers) as (_, run, server):
        assert run["status"] == "completed", run
        first, later = (request.body for request in server.asked)
    assert holds(first, INLINE[model])
    assert ENCODED not in json.dumps(later)
    assert "Attachment available by reference:" in json.dumps(later)


@VENDORS
async def test_c95_a_document_that_is_referred_to_is_a_stub_and_no_byte_of_it_is_sent(
    world: ApiWorld, model: str
) -> None:
    file = (PDF, "application/pdf")
    async with ran(world, model, file, SAYING[model], disposition="ref") as (_, run, server):
        assert run["status"] == "completed", run
        [asked] = server.asked
    sent = json.dumps(asked.body)
    assert "Attachment available by reference:" in sent
    assert base64.b64encode(PDF).decode() not in sent


@VENDORS
async def test_c99_a_native_document_is_uploaded_and_shown_by_its_id(
    world: ApiWorld, model: str
) -> None:
    answers, native = (UPLOADED[model], SAID[model], GONE), {"disposition": "provider_native"}
    file = (PDF, "application/pdf")
    async with ran(world, model, file, *answers, **native) as (alice, run, server):
        assert (run["status"], run["tainted"]) == ("completed", True)
        uploaded, asked = server.asked
        [told] = await data_of(alice, run, "attachment.resolved")
    assert PDF in uploaded.raw
    assert holds(asked.body, FILE_PART[model])
    assert (told["disposition"], told["degraded"]) == ("provider_native", False)


@VENDORS
async def test_c99_an_upload_that_fails_fails_the_model_call(world: ApiWorld, model: str) -> None:
    refusal = refused(403, {"error": {"message": "no"}})
    native = {"disposition": "provider_native"}
    file = (PDF, "application/pdf")
    async with ran(world, model, file, refusal, **native) as (_, run, server):
        assert (run["status"], run["error"]["code"]) == ("failed", "auth")
        assert len(server.asked) == 1
