"""The log is JSON, and what an exception says does not get into it.

Each test is a program of its own: the log is set up for a whole process.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PRIVATE = "an argument nobody may see"
FAILURE = f"""
def failing():
    try:
        {{}}["{PRIVATE}"]
    except KeyError as error:
        raise ValueError("{PRIVATE}") from error
try:
    failing()
except ValueError:
    log.exception("run.failed")
"""


def logged(program: str) -> list[dict[str, object]]:
    """What a program wrote to its log, line by line."""
    start = "import logging, structlog\nfrom app.cli.logs import configure_logs\nconfigure_logs()\n"
    command = [sys.executable, "-W", "error", "-c", start + program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert PRIVATE not in done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_an_event_is_one_line_with_its_fields() -> None:
    (line,) = logged("structlog.get_logger('app.x').info('lease.lost', conversation_id='conv_1')")
    assert line.pop("timestamp")
    assert line == {
        "event": "lease.lost",
        "level": "info",
        "logger": "app.x",
        "conversation_id": "conv_1",
    }


@pytest.mark.parametrize("logger", ["structlog.get_logger('x')", "logging.getLogger('x')"])
def test_an_exception_is_told_without_its_message(logger: str) -> None:
    (line,) = logged(f"log = {logger}" + FAILURE)
    told = line["exception"]
    assert isinstance(told, list)
    assert [each["type"] for each in told] == ["builtins.ValueError", "builtins.KeyError"]
    assert told[0]["places"][-1].endswith(" failing")


def test_a_line_that_cannot_be_formatted_is_dropped_in_silence() -> None:
    """Python would print the message and its arguments to explain what failed."""
    assert logged(f"logging.getLogger('x').info('%d', '{PRIVATE}')") == []


def test_a_library_that_logs_addresses_is_quiet() -> None:
    assert logged("logging.getLogger('httpx').info('HTTP Request: GET http://private/')") == []
