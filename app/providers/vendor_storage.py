"""The files APIs of OpenAI and Anthropic, by their SDKs.

Google's is left out: its ids are addresses that only the vendor's own host has.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anthropic
import openai

from app.providers.failures import kind_of_status
from app.providers.native_files import VENDOR_KEEPS_S, Unsupported
from app.turn.ports import FailureKind, ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.providers.endpoint import Endpoint
    from app.turn.native_files import NativeFile

_STATUS: Final = (openai.APIStatusError, anthropic.APIStatusError)
_TIMED_OUT: Final = (openai.APITimeoutError, anthropic.APITimeoutError)
_LOST: Final = (openai.APIError, anthropic.APIError)
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS: Final = frozenset({_PDF, "application/json", "application/rtf", "application/msword"})
# There is no such API, or it takes no such file.
_ABSENT: Final = frozenset({404, 405, 415, 501})


class OpenAIStorage:
    """Files of OpenAI: documents and images."""

    def __init__(self, client: openai.AsyncOpenAI, endpoint: Endpoint) -> None:
        self._client = client
        self.account = ("openai", endpoint)

    def takes(self, media_type: str) -> bool:
        """Images, texts and documents that its models read; sounds are not shown by id."""
        is_known = media_type in _IMAGES or media_type in _DOCUMENTS
        return is_known or media_type.startswith(("text/", _OFFICE))

    async def upload(self, file: NativeFile, content: bytes) -> str:
        """The file's id. Raises Unsupported, ProviderError."""
        with _asking("openai"):
            made = await self._client.files.create(
                file=(_name(file), content, file.media_type),
                purpose="user_data",
                expires_after={"anchor": "created_at", "seconds": VENDOR_KEEPS_S},
            )
        return made.id

    async def delete(self, file_id: str) -> None:
        """Let go of a file. Raises ProviderError."""
        with _asking("openai"):
            await self._client.files.delete(file_id)


class AnthropicStorage:
    """Files of Anthropic: documents and images."""

    def __init__(self, client: anthropic.AsyncAnthropic, endpoint: Endpoint) -> None:
        self._client = client
        self.account = ("anthropic", endpoint)

    def takes(self, media_type: str) -> bool:
        """Images, PDF and plain text."""
        return media_type in _IMAGES or media_type in {_PDF, "text/plain"}

    async def upload(self, file: NativeFile, content: bytes) -> str:
        """The file's id. Raises Unsupported, ProviderError."""
        with _asking("anthropic"):
            made = await self._client.beta.files.upload(
                file=(_name(file), content, file.media_type), expires_in_seconds=VENDOR_KEEPS_S
            )
        return made.id

    async def delete(self, file_id: str) -> None:
        """Let go of a file. Raises ProviderError."""
        with _asking("anthropic"):
            await self._client.beta.files.delete(file_id)


def _name(file: NativeFile) -> str:
    return file.filename or file.id


@contextmanager
def _asking(vendor: str) -> Iterator[None]:
    """A block that asks a files API. Raises Unsupported, ProviderError; neither quotes a body."""
    try:
        yield
    except _STATUS as error:
        status = error.status_code
        if status in _ABSENT or (status == 400 and "unsupported" in str(error).lower()):
            raise Unsupported from error
        kind = kind_of_status(status)
        raise ProviderError(kind, f"{vendor}: {kind.value}, status {status}, for a file") from error
    except _TIMED_OUT as error:
        raise ProviderError(FailureKind.TIMEOUT, f"{vendor}: timeout, for a file") from error
    except _LOST as error:
        raise ProviderError(
            FailureKind.UNAVAILABLE, f"{vendor}: unavailable, for a file"
        ) from error
