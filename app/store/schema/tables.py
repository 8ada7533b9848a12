"""All tables in one place, for Alembic and for whoever asks which there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlmodel import SQLModel

from app.store.schema import access, grants, log, memory, runs

if TYPE_CHECKING:
    from sqlalchemy import MetaData

MODULES = (access, grants, log, memory, runs)


def metadata() -> MetaData:
    """The schema as the table classes describe it."""
    return SQLModel.metadata
