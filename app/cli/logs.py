"""The log of a process: JSON lines on standard error, an event name and fields (service.md 10).

Never arguments, results or tokens: an exception is told by its type and the places it passed, not
by its message, and libraries that log addresses or statements stay below the level.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Final

import structlog

from app.settings import unknown_names

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

# Requests of the clients carry what a model or a tool was told; the others tell every connection.
_QUIET: Final = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "anthropic",
    "google_genai",
    "sqlalchemy",
    "alembic.runtime.plugins",
    "uvicorn.error",
)
# Its warnings and errors quote what a server sent.
_SILENT: Final = "mcp"

log = structlog.get_logger("turngate.settings")


def configure_logs() -> None:
    """Make structlog and the standard library write the same JSON lines."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _exception_places,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    # Python would explain a line that cannot be formatted by printing its arguments.
    logging.raiseExceptions = False
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(_SILENT).setLevel(logging.CRITICAL)


def warn_of_unknown() -> None:
    """Log which names are no settings, and so do nothing."""
    if unknown := unknown_names():
        log.warning("settings.unknown", names=unknown)


def _exception_places(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its types and places, since its message may hold arguments."""
    info = event.pop("exc_info", None)
    error = sys.exception() if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = [_told(each) for each in _chain(error)]
    return event


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and what it came from, newest first."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found:
        found.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return found


def _told(error: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"type": f"{type(error).__module__}.{type(error).__qualname__}", "places": places}
