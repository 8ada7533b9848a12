"""Dockerfile and compose.yaml hold what the Makefile, the settings and the commands say."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatch
from importlib import import_module
from typing import Any

import pytest

from app.settings import Settings
from tests.architecture.sources import ROOT

DOCKERFILE = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
LINES = [line.split(maxsplit=1) for line in DOCKERFILE.splitlines() if line[:1].isupper()]
IGNORED = (ROOT / ".dockerignore").read_text().split()
NAMES = {f"TURNGATE_{name.upper()}" for name in Settings.model_fields}


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in LINES if name == instruction]


def sources() -> list[str]:
    copied = [shlex.split(rest) for rest in arguments("COPY")]
    return [name for words in copied if not words[0].startswith("--") for name in words[:-1]]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    # It has no stubs; the file is read with its merges.
    document: dict[str, Any] = import_module("yaml").safe_load((ROOT / "compose.yaml").read_text())
    return document


@pytest.mark.parametrize("name", sources())
def test_what_is_copied_is_there_and_not_kept_out(name: str) -> None:
    assert (ROOT / name).exists()
    assert f"!{name}" in IGNORED
    assert not any(fnmatch(name, each) for each in IGNORED if not each.startswith(("!", "*")))


def test_it_is_installed_from_the_lock_as_make_installs() -> None:
    install = re.search(
        r"pip install (.*) -r requirements-dev.lock", (ROOT / "Makefile").read_text()
    )
    assert install is not None
    [locked] = [rest for rest in arguments("RUN") if "-r requirements.lock" in rest]
    for flag in ("--no-deps", "--require-hashes"):
        assert flag in install[1].split()
        assert flag in locked.split()


def test_it_runs_as_somebody_without_rights() -> None:
    [user] = arguments("USER")
    assert user not in ("root", "0")
    assert any(f"useradd --uid 10001 --create-home {user}" in rest for rest in arguments("RUN"))


def test_its_health_is_asked_where_it_serves() -> None:
    [check] = arguments("HEALTHCHECK")
    [port] = arguments("EXPOSE")
    assert f"http://127.0.0.1:{port}/healthz" in check


def test_every_variable_is_a_setting(compose: dict[str, Any]) -> None:
    named = set(re.findall(r"TURNGATE_\w+", DOCKERFILE))
    for service in compose["services"].values():
        named |= {name for name in service["environment"] if name.startswith("TURNGATE_")}
    assert named
    assert named <= NAMES


def test_the_services_wait_for_their_database_and_get_time_to_drain(
    compose: dict[str, Any],
) -> None:
    """Running turns get the drain, and open requests ten seconds more."""
    for name in ("api", "worker"):
        service = compose["services"][name]
        assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace >= Settings.model_fields["drain_s"].default + 10
        assert {place.partition(":")[0] for place in service["volumes"]} <= compose[
            "volumes"
        ].keys()
    assert compose["services"]["postgres"]["healthcheck"]["test"]


def test_the_api_is_on_this_machine_alone(compose: dict[str, Any]) -> None:
    assert compose["services"]["api"]["ports"] == ["127.0.0.1:8000:8000"]
