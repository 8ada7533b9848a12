"""The models of the house: those that answer, and the one that embeds."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from app.providers.directory import ProviderDirectory
from app.providers.embedding import ContractEmbedder
from app.providers.embedding_endpoint import EmbeddingEndpoint, EndpointVectors
from app.providers.endpoint import Endpoint
from app.providers.wordllama import WordLlamaVectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import SecretStr

    from app.service.clock import Clock
    from app.settings import Settings


def providers_of(settings: Settings, clock: Clock) -> ProviderDirectory:
    """The vendors that there is a key for, and the compatible servers."""
    vendors = {
        "openai": settings.openai_api_key,
        "anthropic": settings.anthropic_api_key,
        "google": settings.google_api_key,
    }
    return ProviderDirectory(
        clock,
        vendors={name: Endpoint(_secret(key)) for name, key in vendors.items() if key is not None},
        compatible={
            name: Endpoint(_secret(server.api_key), server.base_url, server.context_window)
            for name, server in settings.compatible.items()
        },
    )


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncIterator[ContractEmbedder]:
    """The operator's endpoint, or the vectors that come with the service."""
    if settings.embeddings_url is None or settings.embeddings_model is None:
        yield ContractEmbedder(WordLlamaVectors())
        return
    endpoint = EmbeddingEndpoint(
        settings.embeddings_url,
        settings.embeddings_model,
        _secret(settings.embeddings_api_key),
        settings.embeddings_dimensions,
    )
    async with aclosing(EndpointVectors(endpoint)) as vectors:
        yield ContractEmbedder(vectors)


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
