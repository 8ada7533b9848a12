"""A PgBouncer in transaction mode before a Postgres, if it is installed here."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.database.external_postgres import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

PGBOUNCER: Final = Path("/usr/sbin/pgbouncer")
# Fewer sessions than a process has connections: whoever relies on one of its own is found out.
_CONFIG: Final = """
[databases]
{database} = host={host} dbname={database} user={user}
{database}_owned = host={host} dbname={database} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_round_robin = {round_robin}
log_connections = 0
log_disconnections = 0
log_pooler_errors = 0
log_stats = 0
"""


@contextmanager
def pgbouncer(
    dsn: str, folder: Path, *, user: str = "postgres", round_robin: bool = True
) -> Iterator[str]:
    """The address of a pooler before the server of `dsn`, which listens on a local socket.

    It logs in as `user`, and as the owner for the database's name with `_owned` after it. In round
    robin a transaction gets another session than the one before, if there is another.
    """
    parts = urlsplit(dsn)
    text = _CONFIG.format(
        host=parse_qs(parts.query)["host"][0],
        database=parts.path.removeprefix("/"),
        folder=folder,
        user=user,
        round_robin=int(round_robin),
    )
    if os.geteuid() == 0:
        # It does not run as root.
        os.chown(folder, getpwnam(ACCOUNT).pw_uid, -1)
        text += f"user = {ACCOUNT}\n"
    config = folder / "pgbouncer.ini"
    config.write_text(text)
    process = subprocess.Popen([PGBOUNCER, config], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("process up" in line for line in process.stderr)
        yield f"postgresql://postgres@{parts.path}?host={folder}&port=6432"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
