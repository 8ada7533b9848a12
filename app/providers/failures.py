"""What went wrong at a provider, in the turn's words (turn.md 9, 10).

The message names the vendor, the status and the vendor's own code for the error. It never quotes
the body: that may hold a key or a piece of the conversation.
"""

from __future__ import annotations

from typing import Final

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from app.turn.ports import FailureKind, ProviderError

# What pydantic-ai raises for a request; nothing else of it is expected.
FAILURES: Final = (AgentRunError, UserError)

# The first row that fits, so a special error stands before its general one. A spent quota is not a
# rate limit: waiting does not help.
_KINDS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (ModelAuthenticationError, FailureKind.AUTH),
    (ModelQuotaExceededError, FailureKind.OTHER),
    (ModelRateLimitError, FailureKind.RATE_LIMIT),
    (ModelTimeoutError, FailureKind.TIMEOUT),
    (ModelRequestTimeout, FailureKind.TIMEOUT),
    (ModelConnectionError, FailureKind.UNAVAILABLE),
    (ModelUnavailableError, FailureKind.UNAVAILABLE),
    (ModelServerError, FailureKind.UNAVAILABLE),
    (ModelRequestRejectedError, FailureKind.BAD_REQUEST),
    (UserError, FailureKind.BAD_REQUEST),
)
_STATUSES: Final = {
    401: FailureKind.AUTH,
    403: FailureKind.AUTH,
    408: FailureKind.TIMEOUT,
    429: FailureKind.RATE_LIMIT,
}


def provider_error(error: Exception, vendor: str) -> ProviderError:
    """The error of the port for one of `FAILURES`."""
    retry_after = error.retry_after if isinstance(error, ModelAPIError) else None
    return ProviderError(_kind(error), _message(error, vendor), retry_after=retry_after)


def truncated(vendor: str) -> ProviderError:
    """The stream ended as if it were complete, but never said why it ended: it was cut."""
    return ProviderError(FailureKind.UNAVAILABLE, f"{vendor}: the stream ended unfinished")


def kind_of_status(status: int) -> FailureKind:
    """What an answer with that status means where nothing more is known of it."""
    general = FailureKind.UNAVAILABLE if status >= 500 else FailureKind.BAD_REQUEST
    return _STATUSES.get(status, general)


def _kind(error: Exception) -> FailureKind:
    for category, kind in _KINDS:
        if isinstance(error, category):
            return kind
    if not isinstance(error, ModelHTTPError):
        # No status: what came was no answer of the API at all, such as a body that is not JSON.
        return FailureKind.UNAVAILABLE
    return kind_of_status(error.status_code)


def _message(error: Exception, vendor: str) -> str:
    facts = [_kind(error).value]
    if isinstance(error, ModelHTTPError):
        facts.append(f"status {error.status_code}")
    if isinstance(error, ModelAPIError) and (code := error.provider_error_code):
        facts.append(str(code)[:100])
    return f"{vendor}: {', '.join(facts)}"
