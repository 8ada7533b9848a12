"""The command line in a process that kills itself at a request's commit, as `kill -9` would.

    python -m tests.support.api.mortal_process EVENT MOMENT serve --no-worker

It dies right before or right after the commit of the first transaction in which a request appends
an event of that type. Nothing of this is known to `app`.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from typing_extensions import override

from app.cli import app
from app.store import open as opening
from app.store.database import StoreDatabase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.transactions import StoreTransaction

_, EVENT, MOMENT, *WORDS = sys.argv


class MortalDatabase(StoreDatabase):
    """The store's database, until the commit that kills the process."""

    @override
    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[StoreTransaction]:
        async with super().transaction(tenant) as tx:
            yield tx
            is_last = any(event.type == EVENT for batch in tx.written for event in batch.events)
            if is_last and MOMENT == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if is_last:
                # Whoever dies now tells nobody what was committed, and gives its worker nothing.
                tx.written.clear()
                tx.woken.clear()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    vars(opening)["StoreDatabase"] = MortalDatabase
    sys.argv = ["turngate", *WORDS]
    app()
