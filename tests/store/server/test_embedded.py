"""The embedded Postgres with real servers; `data_dir` checks that nothing is left behind."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.errors import StoreUnavailable
from app.store.server import embedded
from app.store.server.embedded import EmbeddedPostgres
from tests.support.database.postgres_user import (
    PostgresUser,
    Postmaster,
    can_run_as,
    kill,
    processes_of,
    wait_for_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]

NOBODY = 65534


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A fresh directory, of which nothing may run any more when the test ends."""
    path = tmp_path / "data"
    yield path
    assert processes_of(path) == []


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "data"
    EmbeddedPostgres.start(path).stop()
    return path


@pytest.fixture
def old_dir(made_before: Path) -> Iterator[Path]:
    """A directory whose server was stopped; it may not run either when the test ends."""
    yield made_before
    assert processes_of(made_before) == []


def ask(dsn: str, query: str) -> object:
    async def answer() -> object:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(answer())


def test_the_first_start_makes_the_database(data_dir: Path) -> None:
    server = EmbeddedPostgres.start(data_dir)
    assert ask(server.dsn, "select current_database()") == "turngate"
    assert ask(server.dsn, "show server_encoding") == "UTF8"
    assert ask(server.dsn, "select datcollate from pg_database limit 1") == "C"
    assert ask(server.dsn, "show fsync") == "on"
    server.stop()


def test_the_port_is_not_taken_from_the_environment(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    server = EmbeddedPostgres.start(old_dir)
    assert ask(server.dsn, "select 1") == 1
    server.stop()


def test_a_second_stop_does_nothing(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    server.stop()
    server.stop()


def test_whether_anybody_uses_it_can_be_asked(old_dir: Path, tmp_path: Path) -> None:
    assert not embedded.is_used(tmp_path / "nowhere")
    assert not embedded.is_used(old_dir)
    server = EmbeddedPostgres.start(old_dir)
    assert embedded.is_used(old_dir)
    server.stop()
    assert not embedded.is_used(old_dir)


def test_what_was_written_is_there_after_a_restart(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    ask(server.dsn, "create table kept as select 7 as value")
    server.stop()
    again = EmbeddedPostgres.start(old_dir)
    assert ask(again.dsn, "select value from kept") == 7
    again.stop()


def test_another_process_uses_the_server_that_runs(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    pid = Postmaster.of(old_dir).pid
    with PostgresUser(old_dir) as other:
        assert other.dsn() == server.dsn
        assert Postmaster.of(old_dir).pid == pid
        server.stop()
        assert ask(server.dsn, "select 1") == 1
        assert other.leave() == 0


def test_two_first_starts_at_once_share_one_server(data_dir: Path) -> None:
    with PostgresUser(data_dir) as one, PostgresUser(data_dir) as two:
        dsn = one.dsn()
        assert two.dsn() == dsn
        assert one.leave() == 0
        assert ask(dsn, "select 1") == 1
        assert two.leave() == 0


def test_a_killed_postgres_comes_back(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    killed = Postmaster.of(old_dir).pid
    kill(killed)
    again = EmbeddedPostgres.start(old_dir)
    assert ask(server.dsn, "select 1") == 1
    assert Postmaster.of(old_dir).pid != killed
    server.stop()
    again.stop()


def test_a_killed_postgres_without_its_keeper_is_no_obstacle(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    killed = Postmaster.of(old_dir)
    kill(killed.keeper)
    kill(killed.pid)
    again = EmbeddedPostgres.start(old_dir)
    assert again.dsn == server.dsn
    assert ask(again.dsn, "select 1") == 1
    server.stop()
    again.stop()


def test_stop_needs_no_keeper(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    kill(Postmaster.of(old_dir).keeper)
    server.stop()


def test_a_server_left_by_killed_users_is_adopted_and_ended(old_dir: Path) -> None:
    with PostgresUser(old_dir) as one, PostgresUser(old_dir) as two:
        dsn = one.dsn()
        assert two.dsn() == dsn
        left = Postmaster.of(old_dir).pid
        one.kill()
        two.kill()
    server = EmbeddedPostgres.start(old_dir)
    assert Postmaster.of(old_dir).pid == left
    assert ask(dsn, "select 1") == 1
    server.stop()


def test_a_server_left_by_killed_users_ends_by_itself(old_dir: Path) -> None:
    with PostgresUser(old_dir) as user:
        user.dsn()
        user.kill()
    wait_for_end(old_dir)
    assert not list(old_dir.rglob("postmaster.pid"))


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    text: str


STALE = [
    Case("empty", ""),
    Case("not a pid", "x\n"),
    Case("a pid used again", f"{os.getpid()}\n/gone\n1\n5432\n/gone\n\n1 1\nready\n"),
    Case("a pid of nobody", "4194305\n/gone\n1\n5432\n/gone\n\n1 1\nready\n"),
]


@pytest.mark.parametrize("case", STALE, ids=lambda case: case.id)
def test_a_stale_pid_file_is_no_obstacle(old_dir: Path, case: Case) -> None:
    (old_dir / "postgres" / "postmaster.pid").write_text(case.text)
    server = EmbeddedPostgres.start(old_dir)
    assert ask(server.dsn, "select 1") == 1
    server.stop()


def test_the_pid_of_a_zombie_is_no_obstacle(old_dir: Path) -> None:
    with subprocess.Popen(["/bin/true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        lines = f"{zombie.pid}\n/gone\n1\n5432\n/gone\n\n1 1\nready\n"
        (old_dir / "postgres" / "postmaster.pid").write_text(lines)
        server = EmbeddedPostgres.start(old_dir)
        assert ask(server.dsn, "select 1") == 1
        server.stop()


def test_a_first_start_killed_half_way_is_no_obstacle(data_dir: Path) -> None:
    (data_dir / "postgres.new" / "base").mkdir(parents=True)
    server = EmbeddedPostgres.start(data_dir)
    assert ask(server.dsn, "select 1") == 1
    server.stop()


def test_a_long_path_gets_a_private_socket_folder(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30) / "and, with a comma"
    server = EmbeddedPostgres.start(data_dir)
    socket = Postmaster.of(data_dir).socket
    assert ask(server.dsn, "select 1") == 1
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert not socket.is_relative_to(tmp_path)
    server.stop()
    assert not socket.exists()


def test_no_directory_of_anybody_is_made_more_readable(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    data_dir = home / "project" / "data"
    before = {path: path.stat().st_mode for path in home.parents}
    server = EmbeddedPostgres.start(data_dir)
    assert {path: path.stat().st_mode for path in home.parents} == before
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for path in (data_dir, *data_dir.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    server.stop()


def test_people_can_see_whose_server_it_is_and_reach_it(old_dir: Path) -> None:
    server = EmbeddedPostgres.start(old_dir)
    found = Postmaster.of(old_dir)
    assert str(old_dir) in Path(f"/proc/{found.pid}/cmdline").read_text()
    assert found.socket.is_absolute()
    dsn = f"postgresql://postgres@/postgres?host={found.socket}&port={found.port}"
    assert ask(dsn, "select 1") == 1
    server.stop()


def test_a_refusal_tells_what_postgres_said(data_dir: Path) -> None:
    EmbeddedPostgres.start(data_dir).stop()
    (data_dir / "postgres" / "postgresql.conf").write_text("nonsense = 1\n")
    with pytest.raises(StoreUnavailable, match='unrecognized configuration parameter "nonsense"'):
        EmbeddedPostgres.start(data_dir)


def test_the_data_directory_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StoreUnavailable, match="no embedded Postgres in"):
        EmbeddedPostgres.start(tmp_path / "data")


def test_a_start_waits_for_processes_of_a_former_server(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = os.open(old_dir / "postgres", os.O_RDONLY)
    fcntl.flock(orphan, fcntl.LOCK_EX)
    monkeypatch.setattr(embedded, "START_SECONDS", 0.1)
    with pytest.raises(StoreUnavailable, match="did not get ready"):
        EmbeddedPostgres.start(old_dir)
    os.close(orphan)
    monkeypatch.undo()
    EmbeddedPostgres.start(old_dir).stop()


def test_a_server_that_does_not_end_is_reported(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedPostgres.start(old_dir)
    frozen = Postmaster.of(old_dir).pid
    os.kill(frozen, signal.SIGSTOP)
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.05)
    with pytest.raises(StoreUnavailable, match="did not end within"):
        server.stop()
    os.kill(frozen, signal.SIGCONT)
    wait_for_end(old_dir)


def test_a_log_that_has_grown_becomes_the_one_before(old_dir: Path) -> None:
    os.truncate(old_dir / "postgres.log", 9 << 20)
    EmbeddedPostgres.start(old_dir).stop()
    assert (old_dir / "postgres.log.1").stat().st_size == 9 << 20
    assert (old_dir / "postgres.log").stat().st_size < 10_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_root_lends_postgres_another_account(data_dir: Path) -> None:
    server = EmbeddedPostgres.start(data_dir)
    assert Postmaster.of(data_dir).uid not in {0, NOBODY}
    assert (data_dir / "postgres").stat().st_uid == Postmaster.of(data_dir).uid
    assert data_dir.stat().st_uid == 0
    server.stop()


@pytest.mark.skipif(not can_run_as(NOBODY), reason="needs root, and a Python others may run")
def test_a_user_runs_it_as_themselves_and_root_may_join() -> None:
    with tempfile.TemporaryDirectory(prefix="turngate-test-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        data_dir = Path(folder) / "data"
        with PostgresUser(data_dir, uid=NOBODY) as user:
            dsn = user.dsn()
            found = Postmaster.of(data_dir)
            assert found.uid == NOBODY
            assert found.socket == data_dir / "postgres"
            server = EmbeddedPostgres.start(data_dir)
            assert server.dsn == dsn
            assert user.leave() == 0
            assert ask(dsn, "select 1") == 1
            server.stop()
        assert processes_of(data_dir) == []
