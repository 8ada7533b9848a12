"""What this process knows of the ends of logs, to append without reading them first."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from app.store.log.numbering import Tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.store.server.connections import Connection

TAILS: Final = 10_000

_READ: Final = """
SELECT id, head_seq, head_hash, tainted, sealed_seq FROM conversations WHERE id = ANY($1::text[])"""


class Tails:
    """The tails seen last, at most 10 000. One that is out of date costs a second try, no more."""

    def __init__(self, largest: int = TAILS) -> None:
        self._tails: OrderedDict[str, Tail] = OrderedDict()
        self._largest = largest

    def get(self, conversation_id: str) -> Tail | None:
        """The tail seen last."""
        tail = self._tails.get(conversation_id)
        if tail is not None:
            self._tails.move_to_end(conversation_id)
        return tail

    def see(self, conversation_id: str, tail: Tail) -> None:
        """Remember a committed tail unless a later one is known."""
        known = self._tails.get(conversation_id)
        if known is None or known.seq < tail.seq:
            self._tails[conversation_id] = tail
            self._tails.move_to_end(conversation_id)
        if len(self._tails) > self._largest:
            self._tails.popitem(last=False)


async def read_tails(reader: Connection, conversation_ids: Sequence[str]) -> dict[str, Tail]:
    """The committed tails of those conversations that exist."""
    rows = await reader.fetch(_READ, conversation_ids)
    return {row["id"]: Tail.of(row) for row in rows}
