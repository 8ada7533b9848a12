"""The settings as a command takes them: read once, and refused in one readable line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.errors import Misconfigured
from app.settings import Environment, Settings, unknown_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def read_settings() -> Settings:
    """The settings of the environment and of `.env`.

    Raises Misconfigured, whose message names each of them that does not hold, and never its value.
    In production a name that is no setting is refused as well: it may be a misspelt protection.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise Misconfigured("; ".join(map(_told, found))) from None
    except SettingsError as error:
        # Its cause would show the value, which may hold a key.
        raise Misconfigured(_unparsed(str(error))) from None
    if settings.env is Environment.PRODUCTION and (unknown := unknown_names()):
        raise Misconfigured("; ".join(f"{name}: no such setting" for name in unknown))
    return settings


def _unparsed(message: str) -> str:
    """A value that should be JSON; pydantic names its field in quotes."""
    named = re.search(r'field "(\w+)"', message)
    return f"TURNGATE_{named[1].upper()}: not valid JSON" if named else message


def _told(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name, *members = map(str, error["loc"])
    return f"TURNGATE_{'.'.join([name.upper(), *members])}: {message}"
