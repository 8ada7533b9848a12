"""A Postgres that is not ours, of the oldest version that is promised to work, if it is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST: Final = Path("/usr/lib/postgresql/15/bin")
ACCOUNT: Final = "nobody"


@contextmanager
def postgres_15() -> Iterator[str]:
    """The DSN of a fresh server of the oldest version, in a folder that its account can reach.

    It has no `vector` extension: a Debian's has none unless somebody installs it.
    """
    with tempfile.TemporaryDirectory(prefix="turngate-pg15-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with external_postgres(folder) as dsn:
            yield dsn


@contextmanager
def external_postgres(folder: Path) -> Iterator[str]:
    """The DSN of a fresh server in `folder`, which is left as it was found."""
    data = folder / "cluster"
    data.mkdir(mode=0o700)
    account: dict[str, object] = {}
    if os.geteuid() == 0:
        # Postgres does not run as root.
        person = getpwnam(ACCOUNT)
        os.chown(data, person.pw_uid, person.pw_gid)
        account = {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": []}
    _run(
        [OLDEST / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"],
        account,
    )
    options = f"-c listen_addresses='' -c unix_socket_directories={data} -c max_connections=200"
    control = [OLDEST / "pg_ctl", "-D", data, "-w", "-l", data / "log"]
    _run([*control, "-o", options, "start"], account)
    try:
        dsn = f"host={data} user=postgres"
        _run([OLDEST / "psql", dsn, "-c", "CREATE DATABASE turngate"], account)
        yield f"postgresql://postgres@/turngate?host={data}"
    finally:
        _run([*control, "-m", "fast", "stop"], account)
        shutil.rmtree(data)


def _run(command: list[object], account: dict[str, object]) -> None:
    subprocess.run(
        [str(part) for part in command],
        check=True,
        stdout=subprocess.DEVNULL,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        cwd="/",
        **account,  # type: ignore[call-overload]  # the account is three keywords or none
    )
