"""The demo as a new user runs it: a story that can be read, and nothing left behind."""

from __future__ import annotations

import os
import re
import select
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.architecture.sources import ROOT
from tests.e2e.processes import END_S, Place

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Played:
    """A demo that ran to its end."""

    place: Place
    said: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    place = Place(tmp_path_factory.mktemp("demo"))
    done = place.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    return Played(place, done.stdout)


# Times, ids, digests and, since text is gathered by time, seqs.
OF_ITS_RUN = re.compile(
    r"\d+\.\d\ds|(?<=_)[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}|[0-9a-f]{64}|(?<=← ) *\d+"
)
# What a reader must find, in this order.
STORY = (
    *("Turngate serves on http://127.0.0.1:", "POST /v1/keys", "PUT /v1/agents/courier"),
    *("An order is approved", "POST /v1/runs", "run.created", "approval.requested", "run.paused"),
    *("exact bytes", "SHA-256", "POST …/payload", "POST …/approve", "approval.decided"),
    *("tool.started", "http_post", "run.completed", "Order 17 is on its way."),
    *("the receiver got", '{"order":17,"item":"tea","amount":2}', "Idempotency-Key", "run_"),
    *("turngate audit verify --conversation conv_", "sound"),
    *("An order is denied", "denied", "denied by human approver", "Nothing was sent."),
    *("An order is corrected", "to run instead", "Sent as corrected."),
    *("the receiver got", '{"order":19,"item":"tea","amount":3}'),
)


def test_the_story_is_told_in_order(played: Played) -> None:
    at = 0
    for part in STORY:
        at = played.said.find(part, at)
        assert at >= 0, f"{part!r} is missing:\n{played.said}"


def spoken(line: str) -> str:
    """A line without its frame and what is of its run alone; what is cut is a beginning."""
    return OF_ITS_RUN.sub("*", line.strip(" ─│╭╮╰╯")).rstrip("…")


def test_the_readme_shows_what_is_said(played: Played) -> None:
    readme = (ROOT / "README.md").read_text()
    shown = readme.partition("shortened:\n")[2].partition("`KEEP=1")[0]
    said = iter([spoken(line) for line in played.said.splitlines()])
    for line in filter(None, map(spoken, shown.splitlines())):
        # `any` goes on where the line before was found, so the order is held as well.
        assert any(one and (one.startswith(line) or line.startswith(one)) for one in said), line
    (completed,) = re.findall(r"(\d+) run.completed", shown)
    assert f"{int(completed) + 1} events" in shown  # Its seal is the last.


def test_nothing_is_left_behind(played: Played) -> None:
    assert played.place.processes() == []


def test_the_data_stays_and_is_private(played: Played) -> None:
    assert played.place.data.stat().st_mode & 0o777 == 0o700
    assert (played.place.data / "dev-issuer.json").stat().st_mode & 0o777 == 0o600


def test_on_demand_the_server_stays_and_says_how_to_stop_it(tmp_path: Path) -> None:
    """The next demo leaves it alone: another place, another port, and workers of its own."""
    place = Place(tmp_path, ("KEEP=1",))
    done = place.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    stop = next(line for line in lines if "kill " in line)
    pid = int(stop.split("kill ")[1].split()[0])
    try:
        address = next(line for line in lines if "Turngate serves on" in line)
        address = address.split("serves on ")[1].split(",")[0]
        _, _, token = lines[-1].partition(f"export URL={address} TOKEN=")
        headers = {"Authorization": f"Bearer {token}"}
        runs = httpx.get(f"{address}/v1/runs", headers=headers, timeout=END_S).json()["items"]
        assert [run["status"] for run in runs] == ["completed"] * 3
        again = Place(tmp_path).run("demo")
        assert (again.returncode, again.stderr) == (0, "")
        assert "another process of turngate works in" in again.stdout
        assert address not in again.stdout
    finally:
        stopped_by_kill(pid)
    assert place.processes() == []


def test_demos_at_the_same_time_leave_each_other_alone(tmp_path: Path) -> None:
    """Each has its own server, although neither was there when the other looked."""
    place = Place(tmp_path)
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: place.run("demo"), range(2)))
    assert [(done.returncode, done.stderr) for done in both] == [(0, "")] * 2
    assert place.processes() == []


def test_a_place_that_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    done = Place(tmp_path).run("demo")
    assert done.returncode == 1
    assert done.stderr.startswith("turngate: no place for the demo in ")
    assert len(done.stderr.splitlines()) == 1


def test_a_demo_that_is_killed_takes_its_server_along(tmp_path: Path) -> None:
    """The server hears of it by the end of its input, and drains."""
    place = Place(tmp_path)
    demo = place.start("demo")
    assert demo.stdout is not None
    assert any("Turngate serves on" in line for line in demo.stdout)
    server = next(
        int(each.parent.name)
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if b"--leash" in each.read_bytes() and is_of(place, each)
    )
    handle = os.pidfd_open(server)
    demo.kill()
    demo.communicate(timeout=END_S)
    assert select.select([handle], [], [], END_S)[0], "the server is still there"
    os.close(handle)


def is_of(place: Place, process: Path) -> bool:
    """Whether a process was given this place's data directory."""
    with suppress(OSError):
        return str(place.data).encode() in (process.parent / "environ").read_bytes()
    return False


def stopped_by_kill(pid: int) -> None:
    """End a process that is not our child, and wait until it has ended."""
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    ended, _, _ = select.select([descriptor], [], [], END_S)
    os.close(descriptor)
    assert ended
