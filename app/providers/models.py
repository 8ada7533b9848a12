"""The models of OpenAI, Anthropic, Google and compatible servers, by way of pydantic-ai's classes.

Nothing but the wire formats is taken from pydantic-ai: no agent, no retries of its own or of the
SDKs, no stricter schemas. This module is slow to import, so `directory` does so at the first use.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import InstructionPart, UploadedFile
from pydantic_ai.models import ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
)
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from app.engine.json.text import thaw
from app.providers.failures import FAILURES, provider_error
from app.providers.native_files import NativeFiles
from app.providers.replies import ReplyReader
from app.providers.transcript import holds_calls, vendor_messages
from app.providers.vendor_storage import AnthropicStorage, OpenAIStorage
from app.turn.ports import CacheHint, FailureKind, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from httpx2 import AsyncClient
    from pydantic_ai.messages import UploadedFileProviderName
    from pydantic_ai.models import Model

    from app.engine.streaming.items import StreamItem
    from app.providers.endpoint import Endpoint, ModelName, Timeouts
    from app.providers.native_files import VendorStorage
    from app.turn.native_files import NativeFile
    from app.turn.ports import Clock, ModelRequest

_KEPT_MODELS: Final = 128
_OPENAI_URL: Final = "https://api.openai.com/v1"
_ANTHROPIC_URL: Final = "https://api.anthropic.com"
_NO_KEY: Final = "none"  # What a compatible server without keys gets to see.


class VendorModels:
    """One HTTP client, and the models that share it."""

    def __init__(self, timeouts: Timeouts, clock: Clock) -> None:
        self._timeouts = timeouts
        self._files = NativeFiles(clock)
        self._http = create_async_httpx2_client()
        self._model = lru_cache(_KEPT_MODELS)(self._made)

    async def aclose(self) -> None:
        """Let go of the vendors' files, and close every connection."""
        await self._files.aclose()
        await self._http.aclose()

    async def stream(
        self, name: ModelName, endpoint: Endpoint, request: ModelRequest
    ) -> AsyncGenerator[StreamItem, None]:
        """Dial and stream, as the port says. Closing the generator closes the connection."""
        reader = ReplyReader(name.owner, request.replies)
        searches = request.web_search and name.server is None
        files = await self._placed(name, endpoint, request)
        by_response = searches or any(isinstance(one, UploadedFile) for one in files.values())
        try:
            async with model_request_stream(
                self._model(name, endpoint, by_response=by_response),
                vendor_messages(request.messages, name.owner, files),
                model_settings=self._settings(request),
                model_request_parameters=_parameters(request, name.vendor, searches=searches),
            ) as stream:
                async for event in stream:
                    for item in reader.items(event):
                        yield item
                response = stream.get()
        except UserError as error:
            # Raised before anything is sent; without a search nothing is asked for that could be.
            raise (
                _cannot_search(name) if searches else provider_error(error, name.owner)
            ) from error
        except FAILURES as error:
            failure = provider_error(error, name.owner)
            if failure.kind is FailureKind.BAD_REQUEST:
                # Perhaps of a file that is not there any more: it is not named a second time.
                await self._files.forget(request.files, self._storage(name, endpoint))
            raise failure from error
        for item in reader.closing(response):
            yield item

    async def _placed(
        self, name: ModelName, endpoint: Endpoint, request: ModelRequest
    ) -> dict[str, UploadedFile | str]:
        """By source what the vendor has of each file, or its stub. Raises ProviderError."""
        if not request.files:
            return {}
        placed = await self._files.placed(request.files, self._storage(name, endpoint))
        return {file.source: _shown(file, placed[file.source], name) for file in request.files}

    def _storage(self, name: ModelName, endpoint: Endpoint) -> VendorStorage | None:
        match name.vendor:
            case "anthropic":
                return AnthropicStorage(self._anthropic_client(endpoint), endpoint)
            case "openai":
                return OpenAIStorage(self._openai_client(endpoint), endpoint)
            case _:
                return None

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings(
            timeout=self._timeouts.stall_s,
            first_event_timeout=self._timeouts.first_event_s,
            framing_announcement="never",
        )
        if request.cache_hint is CacheHint.STABLE_PREFIX:
            settings["cache"] = {"messages": False}
        if not request.calls_allowed:
            settings["tool_choice"] = "none"
        return settings

    def _made(self, name: ModelName, endpoint: Endpoint, *, by_response: bool) -> Model:
        match name.vendor:
            case "anthropic":
                provider = AnthropicProvider(anthropic_client=self._anthropic_client(endpoint))
                return AnthropicModel(name.model, provider=provider)
            case "google":
                return _google()(name.model, endpoint, self._http)
            case _:
                return self._openai(name, endpoint, by_response=by_response)

    def _openai(self, name: ModelName, endpoint: Endpoint, *, by_response: bool) -> Model:
        client = self._openai_client(endpoint)
        if name.server is not None:
            compatible = OpenAICompatibleProvider(name.owner, openai_client=client)
            return OpenAIChatModel(name.model, provider=compatible)
        provider = OpenAIProvider(openai_client=client)
        if by_response:  # The chat API neither searches nor shows images by their ids.
            unstored = OpenAIResponsesModelSettings(openai_store=False)
            return OpenAIResponsesModel(name.model, provider=provider, settings=unstored)
        return OpenAIChatModel(name.model, provider=provider)

    def _anthropic_client(self, endpoint: Endpoint) -> AsyncAnthropic:
        return AsyncAnthropic(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url or _ANTHROPIC_URL,
            http_client=self._http,
            max_retries=0,
        )

    def _openai_client(self, endpoint: Endpoint) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=endpoint.api_key or _NO_KEY,
            base_url=endpoint.base_url or _OPENAI_URL,
            http_client=self._http,
            max_retries=0,
        )


def _shown(file: NativeFile, file_id: str | None, name: ModelName) -> UploadedFile | str:
    if file_id is None:
        return file.stub
    vendor: UploadedFileProviderName = "anthropic" if name.vendor == "anthropic" else "openai"
    return UploadedFile(file_id, vendor, media_type=file.media_type)


def _cannot_search(name: ModelName) -> ProviderError:
    what = "cannot search the web, or not while it is offered tools"
    return ProviderError(FailureKind.BAD_REQUEST, f"{name.owner}: {name.model} {what}")


def load_vendor(vendor: str) -> None:
    """Import what the vendor's first use would wait for."""
    if vendor == "google":
        _google()


def _google() -> Callable[[str, Endpoint, AsyncClient], Model]:
    # Google's SDK takes two seconds to import; only those who use it wait for it.
    from app.providers.google import google_model  # noqa: PLC0415 - see above

    return google_model


def _parameters(request: ModelRequest, vendor: str, *, searches: bool) -> ModelRequestParameters:
    offers = request.calls_allowed or holds_calls(request.messages)
    tools = [
        ToolDefinition(
            name=spec.name,
            description=spec.description,
            parameters_json_schema=thaw(dict(spec.parameters)),
            strict=False,
        )
        for spec in (request.tools if offers else ())
    ]
    return ModelRequestParameters(
        function_tools=tools,
        native_tools=[WebSearchTool()] if searches else [],
        instruction_parts=_instructions(request, vendor),
    )


def _instructions(request: ModelRequest, vendor: str) -> list[InstructionPart]:
    """The agent's text, its context, and then the time, which must not spoil the cached prefix.

    Only Anthropic marks where a cached prefix ends. Of other servers some refuse a second part.
    """
    texts = [request.instructions] if request.instructions.strip() else []
    texts += request.context
    lasting = len(texts)
    if request.now_unix_ms is not None:
        now = datetime.fromtimestamp(request.now_unix_ms / 1000, UTC)
        texts.append(f"The time is {now:%Y-%m-%dT%H:%M:%SZ}, a {now:%A}.")
    if vendor != "anthropic":
        texts, lasting = ["\n\n".join(texts)] if texts else [], 1
    return [InstructionPart(text, dynamic=place >= lasting) for place, text in enumerate(texts)]
