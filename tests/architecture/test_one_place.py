"""One place for each act: the clock, the environment, the append, the socket, typer."""

from __future__ import annotations

import ast
import re

import pytest

from app.settings import Settings
from tests.architecture.sources import APP, ROOT, Place, imports, nodes, room

SOURCES = sorted(APP.rglob("*.py"))
CLOCK = "app/service/clock.py"
# They wait for a server of the system's before there is a house with a clock.
EMBEDDED = {"app/store/server/embedded.py", "app/store/server/embedded_keeper.py"}


def name(path: str) -> re.Pattern[str]:
    """A pattern for a dotted name or anything inside it."""
    return re.compile(rf"{re.escape(path)}(\.|$)")


def importers(module: str) -> set[str]:
    """The files that import a module, or a name of it."""
    wanted = name(module)
    return {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for imported, _ in imports(path)
        if wanted.match(imported)
    }


@pytest.mark.parametrize("module", ["time", "random", "secrets"])
def test_only_the_clock_reads_time_and_chance(module: str) -> None:
    assert importers(module) - EMBEDDED == {CLOCK}


@pytest.mark.parametrize("module", ["uuid.uuid1", "uuid.uuid4", "uuid.uuid7", "os.urandom"])
def test_ids_are_minted_by_the_clock_alone(module: str) -> None:
    assert importers(module) <= {CLOCK}


def calls(attribute: str, owner: str) -> list[str]:
    """Where `owner.attribute` is used, however deep inside an expression."""
    return [
        str(Place(path, node.lineno))
        for path in SOURCES
        if str(path.relative_to(ROOT)) != CLOCK
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
    ]


@pytest.mark.parametrize(
    ("attribute", "owner"),
    [("now", "datetime"), ("utcnow", "datetime"), ("today", "date"), ("urandom", "os")],
)
def test_nobody_asks_the_present_of_a_date(attribute: str, owner: str) -> None:
    assert calls(attribute, owner) == []


@pytest.mark.parametrize("attribute", ["environ", "getenv"])
def test_only_the_settings_read_the_environment(attribute: str) -> None:
    assert calls(attribute, "os") == []


def test_every_setting_is_read_by_the_root_or_a_command() -> None:
    readers = [*room("main"), *room("cli")]
    read = {
        node.attr
        for path in readers
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("settings")
    }
    assert set(Settings.model_fields) <= read


def holders(text: str) -> set[str]:
    """The files of the app in which a text stands, whatever the case."""
    return {str(path.relative_to(ROOT)) for path in SOURCES if text in path.read_text().lower()}


def test_events_are_inserted_by_one_statement() -> None:
    assert holders("insert into events ") == {"app/store/log/append.py"}


@pytest.mark.parametrize("statement", ["update events ", "delete from events "])
def test_nothing_changes_or_removes_an_event(statement: str) -> None:
    assert holders(statement) == set()


@pytest.mark.parametrize(
    ("verb", "files"),
    [
        pytest.param("next_step", {"model/reply.py", "stages/loop.py"}, id="what-comes-next"),
        pytest.param("streamed_turn", {"model/reply.py"}, id="a-reply"),
        pytest.param("answer_tool_calls", {"stages/batch.py"}, id="the-results-of-a-batch"),
    ],
)
def test_every_turn_is_driven_by_the_one_machine(verb: str, files: set[str]) -> None:
    """turn.md 3.2: `AgentRun` holds the state of the loop, and there is none beside it."""
    drivers = {
        str(path.relative_to(APP / "turn"))
        for path in room("turn")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == verb
    }
    assert drivers == files


def test_only_the_command_line_knows_typer() -> None:
    assert {path.split("/")[1] for path in importers("typer")} == {"cli"}


def test_one_file_touches_a_websocket() -> None:
    sockets = importers("starlette.websockets") | importers("fastapi.WebSocket")
    assert sockets == set()
    assert holders('"websocket.') == {"app/api/stream/socket.py"}
