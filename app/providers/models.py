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
from pydantic_ai.messages import InstructionPart
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

from app.engine.json_text import thaw
from app.providers.failures import FAILURES, provider_error
from app.providers.replies import ReplyReader
from app.providers.transcript import holds_calls, vendor_messages
from app.turn.ports import CacheHint, FailureKind, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from httpx2 import AsyncClient
    from pydantic_ai.models import Model

    from app.engine.streaming import StreamItem
    from app.providers.endpoint import Endpoint, ModelName, Timeouts
    from app.turn.ports import ModelRequest

_KEPT_MODELS: Final = 128
_OPENAI_URL: Final = "https://api.openai.com/v1"
_ANTHROPIC_URL: Final = "https://api.anthropic.com"
_NO_KEY: Final = "none"  # What a compatible server without keys gets to see.


class VendorModels:
    """One HTTP client, and the models that share it."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._http = create_async_httpx2_client()
        self._model = lru_cache(_KEPT_MODELS)(self._made)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def stream(
        self, name: ModelName, endpoint: Endpoint, request: ModelRequest
    ) -> AsyncGenerator[StreamItem, None]:
        """Dial and stream, as the port says. Closing the generator closes the connection."""
        reader = ReplyReader(name.owner, request.replies)
        searches = request.web_search and name.server is None
        try:
            async with model_request_stream(
                self._model(name, endpoint, searches=searches),
                vendor_messages(request.messages, name.owner),
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
            raise provider_error(error, name.owner) from error
        for item in reader.closing(response):
            yield item

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

    def _made(self, name: ModelName, endpoint: Endpoint, *, searches: bool) -> Model:
        match name.vendor:
            case "anthropic":
                return self._anthropic(name, endpoint)
            case "google":
                return _google()(name.model, endpoint, self._http)
            case _:
                return self._openai(name, endpoint, searches=searches)

    def _anthropic(self, name: ModelName, endpoint: Endpoint) -> Model:
        client = AsyncAnthropic(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url or _ANTHROPIC_URL,
            http_client=self._http,
            max_retries=0,
        )
        return AnthropicModel(name.model, provider=AnthropicProvider(anthropic_client=client))

    def _openai(self, name: ModelName, endpoint: Endpoint, *, searches: bool) -> Model:
        client = AsyncOpenAI(
            api_key=endpoint.api_key or _NO_KEY,
            base_url=endpoint.base_url or _OPENAI_URL,
            http_client=self._http,
            max_retries=0,
        )
        if name.server is not None:
            compatible = OpenAICompatibleProvider(name.owner, openai_client=client)
            return OpenAIChatModel(name.model, provider=compatible)
        provider = OpenAIProvider(openai_client=client)
        if searches:  # The chat API cannot search.
            unstored = OpenAIResponsesModelSettings(openai_store=False)
            return OpenAIResponsesModel(name.model, provider=provider, settings=unstored)
        return OpenAIChatModel(name.model, provider=provider)


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
