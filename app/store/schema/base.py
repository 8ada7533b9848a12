"""What all table classes share: the naming convention of constraints, and the column kinds.

Table classes are storage only: they describe the schema to Alembic, and hot paths never build one.
Ids are text as on the wire. Free text is kept with its NULs escaped (`app.store.texts`), free JSON
as `json`, which keeps its exact text and, unlike `jsonb`, does not refuse an escaped NUL.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, DateTime, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSON
from sqlmodel import Field, SQLModel

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "pk": "pk_%(table_name)s",
}

TEXTS: Final = ARRAY(Text)
NO_SEQUENCE: Final = {"autoincrement": False}


def text(*, key: bool = False, null: bool = False) -> Any:
    """A column of text."""
    return Field(sa_type=Text, primary_key=key, nullable=null)


def texts() -> Any:
    """A column of text[]."""
    return Field(sa_type=TEXTS)


def number(*, key: bool = False, null: bool = False, default: int | None = None) -> Any:
    """A column of bigint, never taken from a sequence."""
    kwargs: dict[str, Any] = dict(NO_SEQUENCE)
    if default is not None:
        kwargs["server_default"] = str(default)
    return Field(sa_type=BigInteger, primary_key=key, nullable=null, sa_column_kwargs=kwargs)


def truth(*, key: bool = False) -> Any:
    """A column of boolean, false unless said otherwise."""
    return Field(sa_type=Boolean, primary_key=key, sa_column_kwargs={"server_default": "false"})


def time(*, null: bool = False) -> Any:
    """A column of timestamptz."""
    return Field(sa_type=DateTime(timezone=True), nullable=null)


def octets(*, null: bool = False) -> Any:
    """A column of bytea."""
    return Field(sa_type=LargeBinary, nullable=null)


def document(*, null: bool = False) -> Any:
    """A column of json."""
    return Field(sa_type=JSON, nullable=null)


def metadata() -> Any:
    """The column `metadata`, a name that SQLModel keeps for itself."""
    return Field(sa_column=Column("metadata", JSON, nullable=False))


def not_empty(column: str = "id") -> CheckConstraint:
    """Refuses the empty id."""
    return CheckConstraint(f"{column} <> ''", name=f"{column}_not_empty")
