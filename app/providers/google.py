"""Google's models. Apart from the others because its SDK takes seconds to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.models import Model

    from app.providers.endpoint import Endpoint


def google_model(name: str, endpoint: Endpoint, http: AsyncClient) -> Model:
    """A model of the Gemini API. Its SDK retries nothing unless told to."""
    provider = GoogleProvider(
        api_key=endpoint.api_key, base_url=endpoint.base_url, http_client=http
    )
    return GoogleModel(name, provider=provider)
