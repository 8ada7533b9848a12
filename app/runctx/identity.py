"""Whoever asks is told apart from everybody else, or nothing is read (run-context.md 2).

There is no flag that relaxes this. Every way to memory, skills and artifacts goes past here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from app.errors import IdentityRequired

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger as Logger

    from app.ids import Identity

Notice = Literal[
    "artifact.identity_rejected", "memory.identity_rejected", "skill.identity_rejected"
]


def require_identity(identity: Identity, told: Logger, notice: Notice) -> None:
    """Raise IdentityRequired, with the notice, unless tenant, user and session are all there."""
    try:
        identity.require()
    except IdentityRequired:
        told.warning(notice)
        raise
