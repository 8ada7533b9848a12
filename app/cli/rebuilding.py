"""`turngate rebuild`: the projections held against the log that they are folded from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.store.log.rebuild import rebuild
from app.store.server.whereabouts import running_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.settings import Settings
    from app.store.log.rebuild import Difference


async def differences(
    settings: Settings, conversation_id: str | None, *, repair: bool
) -> list[Difference]:
    """What was stored otherwise than the log says. Raises StoreUnavailable."""
    async with running_database(settings.database_url, data_dir=settings.data_dir) as dsn:
        lasting = settings.database_direct_url or dsn
        return await rebuild(lasting, conversation_id=conversation_id, repair=repair)


def told(found: Sequence[Difference], *, repair: bool) -> Iterator[str]:
    """The lines to print: places, not values, since these may be anybody's arguments."""
    if not found:
        yield "every projection equals its rebuild"
        return
    places: dict[str, list[str]] = {}
    for each in found:
        places.setdefault(f"{each.table} {each.key}", []).append(each.column)
    for place, columns in places.items():
        yield f"{place}: {', '.join(columns)}"
    yield "repaired" if repair else "run with --repair to put it right"
