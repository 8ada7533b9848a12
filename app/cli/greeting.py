"""What `turngate serve` says once it takes requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.cli.issuing import issue
from app.service.access.development import TokenOrder
from app.service.caller import SCOPES

if TYPE_CHECKING:
    from app.settings import Settings

SERVES: Final = "Turngate serves on "
_HOURS: Final = 8


def greeting(settings: Settings, address: str, *, print_token: bool) -> str:
    """The lines to print; with a token, the last one sets `URL` and `TOKEN` in a shell."""
    lines = [f"{SERVES}{address}", f"API description: {address}/openapi.json"]
    if print_token:
        order = TokenOrder("dev", "dev", tuple(sorted(SCOPES)), ("approver",), _HOURS * 3600)
        lines += [
            f"For another shell, as {order.sub} of tenant {order.tenant}, {_HOURS} hours:",
            shell_line(address, issue(settings, order)),
        ]
    return "\n".join(lines)


def shell_line(address: str, token: str) -> str:
    """What gives a shell the two names that the README's calls use."""
    return f"export URL={address} TOKEN={token}"
