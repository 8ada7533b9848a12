"""What `turngate serve` says once it takes requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.cli.issuing import issue
from app.service.caller import SCOPES
from app.service.development import TokenOrder

if TYPE_CHECKING:
    from app.settings import Settings

SERVES: Final = "Turngate serves on "
_HOURS: Final = 8


def greeting(settings: Settings, address: str, *, print_token: bool) -> str:
    """The lines to print; a token, if it is asked for, is the last one and alone on it."""
    lines = [f"{SERVES}{address}", f"API description: {address}/openapi.json"]
    if print_token:
        order = TokenOrder("dev", "dev", tuple(sorted(SCOPES)), ("approver",), _HOURS * 3600)
        lines += [
            f"Development token for {order.sub} of tenant {order.tenant}, {_HOURS} hours:",
            issue(settings, order),
        ]
    return "\n".join(lines)
