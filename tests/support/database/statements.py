"""What a process asks its database, statement by statement, as the driver sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg

from app.store.server import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

    # The class takes a parameter for type checkers alone.
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class Statements:
    """Every statement of the stores that are opened from now on, in order: text and arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self.arguments: list[Sequence[Any]] = []
        options, telling_class = connections._options, _telling(self._note)

        def telling(url: str, settings: Mapping[str, str]) -> dict[str, Any]:
            return options(url, settings) | {"connection_class": telling_class}

        monkeypatch.setattr(connections, "_options", telling)

    def _note(self, done: asyncpg.connection.LoggedQuery) -> None:
        self.texts.append(done.query)
        self.arguments.append(done.args)

    def restart(self) -> None:
        """Forget those so far."""
        self.texts.clear()
        self.arguments.clear()

    def named(self, names: Mapping[str, str]) -> list[str]:
        """The name of each by the first text in it that has one; ValueError for another."""
        return [_name(text, names) for text in self.texts]


def _telling(note: Callable[[asyncpg.connection.LoggedQuery], None]) -> type:
    """A class of connections that tell what they are asked."""

    class Telling(_Connection):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.add_query_logger(note)

    return Telling


def _name(text: str, names: Mapping[str, str]) -> str:
    for part, name in names.items():
        if part in text:
            return name
    raise ValueError(f"a statement that nobody expects: {text}")
