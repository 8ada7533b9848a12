"""Where an identity provider publishes its keys: a JWKS in a file or behind a URL.

The address is the operator's, so the rules for addresses that a caller or a model names do not
bind it. What cannot be read is an OSError, whatever stood in the way.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import httpx

FETCH_S: Final = 5.0
MAX_BYTES: Final = 1024 * 1024


async def read_key_set(place: str) -> bytes:
    """The JWKS document of a file's path or an http(s) URL. Raises OSError."""
    if place.startswith(("https://", "http://")):
        return await _fetched(place)
    return await asyncio.to_thread(Path(place).read_bytes)


async def _fetched(url: str) -> bytes:
    try:
        async with httpx.AsyncClient(timeout=FETCH_S, trust_env=False) as client:
            answer = await client.get(url, headers={"Accept": "application/json"})
            answer.raise_for_status()
    except httpx.HTTPError as error:
        raise OSError(f"the key set was not served: {type(error).__name__}") from error
    if len(answer.content) > MAX_BYTES:
        raise OSError(f"the key set is over {MAX_BYTES} bytes")
    return answer.content
