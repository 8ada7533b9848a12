"""The embedder behind an OpenAI-compatible endpoint: `POST {url}/embeddings`.

The address is the operator's, so the rules for addresses that a caller or a model names do not
bind it. No message shows a text, the key, or what the endpoint answered.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from app.runctx.memory import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

USUAL_DIMENSION: Final = 1536
LIMIT_S: Final = 10.0
ATTEMPTS: Final = 3
# Eight vectors of 2000 dimensions take half of it; reading far more would hold up everything else.
ANSWER_BYTES: Final = 1024 * 1024
FIRST_WAIT_S: Final = 0.2
_TOO_MANY: Final = 429


class _Item(BaseModel):
    model_config = ConfigDict(strict=True)

    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Item]


@dataclass(frozen=True, slots=True)
class EmbeddingEndpoint:
    """Where to embed; `dimensions` is asked of the endpoint only where it is given."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    dimensions: int | None = None


class EndpointVectors:
    """The vectors of an endpoint; closed by `aclose`."""

    def __init__(
        self,
        endpoint: EmbeddingEndpoint,
        *,
        limit_s: float = LIMIT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        self._limit_s = limit_s
        self._url = f"{endpoint.url.rstrip('/')}/embeddings"
        self.dimension: Final = endpoint.dimensions or USUAL_DIMENSION
        self.id: Final = f"endpoint:{endpoint.model}:{self.dimension}"
        key = endpoint.api_key
        headers = {"Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(headers=headers, timeout=limit_s, trust_env=False)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in their order. Raises EmbeddingFailed."""
        try:
            async with asyncio.timeout(self._limit_s):
                answer = await self._asked(texts)
            items = _Answer.model_validate_json(answer).data
        except (httpx.HTTPError, TimeoutError) as error:
            raise EmbeddingFailed(f"the endpoint failed: {type(error).__name__}") from error
        except ValidationError as error:
            # Its text would quote the answer, and a cause is logged with its text.
            raise EmbeddingFailed(f"the answer has {error.error_count()} faults") from None
        by_index = {item.index: item.embedding for item in items}
        if len(items) != len(texts) or by_index.keys() != set(range(len(texts))):
            raise EmbeddingFailed(f"expected {len(texts)} vectors, each once; found {len(items)}")
        return [by_index[at] for at in range(len(texts))]

    async def _asked(self, texts: Sequence[str]) -> bytes:
        body: dict[str, object] = {"model": self._endpoint.model, "input": list(texts)}
        if self._endpoint.dimensions is not None:
            body["dimensions"] = self._endpoint.dimensions
        status, answer = await self._posted(body)
        for attempt in range(1, ATTEMPTS):
            if status != _TOO_MANY and not httpx.codes.is_server_error(status):
                break
            await self._sleep(FIRST_WAIT_S * attempt)
            status, answer = await self._posted(body)
        if answer is None:
            raise EmbeddingFailed(f"the endpoint answered {status}")
        return answer

    async def _posted(self, body: dict[str, object]) -> tuple[int, bytes | None]:
        """The status of one attempt, and what was answered if that is a success."""
        async with self._client.stream("POST", self._url, json=body) as answer:
            return answer.status_code, await _read(answer) if answer.is_success else None


async def _read(answer: httpx.Response) -> bytes:
    """The bytes as they were sent, for what is unpacked may be of any size."""
    content = bytearray()
    async for chunk in answer.aiter_raw():
        content += chunk
        if len(content) > ANSWER_BYTES:
            raise EmbeddingFailed(f"the endpoint answered more than {ANSWER_BYTES} bytes")
    return bytes(content)
