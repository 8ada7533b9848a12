"""Dockerfile and compose.yaml hold what the Makefile, the settings and the commands say."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from app.cli import app
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


def yaml(name: str) -> dict[str, Any]:
    # It has no stubs; the file is read with its merges.
    document: dict[str, Any] = import_module("yaml").safe_load((ROOT / name).read_text())
    return document


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml("compose.yaml")


@pytest.mark.parametrize("name", sources())
def test_what_is_copied_is_there_and_not_kept_out(name: str) -> None:
    assert (ROOT / name).exists()
    assert f"!{name}" in IGNORED
    assert not any(fnmatch(name, each) for each in IGNORED if not each.startswith(("!", "*")))


def test_nothing_but_what_is_locked_builds_the_project() -> None:
    """As in the Makefile; pip would fetch the newest build backend otherwise."""
    editable = [rest for rest in arguments("RUN") if rest.endswith("-e .")]
    assert len(editable) == 1
    assert "--no-build-isolation" in editable[0].split()
    assert "--no-build-isolation" in (ROOT / "Makefile").read_text()
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pins = (ROOT / "requirements-build.lock").read_text()
    assert all(re.search(rf"^{named(each)}==", pins, re.MULTILINE) for each in backend)


def test_it_is_installed_from_the_lock_as_make_installs() -> None:
    install = re.search(
        r"pip install (.*) -r requirements-dev.lock", (ROOT / "Makefile").read_text()
    )
    assert install is not None
    [locked] = [rest for rest in arguments("RUN") if "-r requirements.lock" in rest]
    for flag in ("--no-deps", "--require-hashes"):
        assert flag in install[1].split()
        assert flag in locked.split()


def named(requirement: str) -> str:
    """The name of a distribution as it is compared."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;\s]", requirement)[0]).lower()


def test_the_lock_pins_what_the_image_needs_with_hashes() -> None:
    """The extras as well: no image has to be built anew for a bucket."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    pins = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
    assert {named(each) for each in [*project["dependencies"], *extras]} <= set(map(named, pins))


def commands() -> list[list[str]]:
    """The command lines of the image and of the services."""
    services = yaml("compose.yaml")["services"].values()
    [own] = arguments("CMD")
    return [json.loads(own), *(each["command"] for each in services if "command" in each)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_is_one_with_options_that_it_takes(words: list[str]) -> None:
    program, name, *options = words
    group = get_command(app)
    assert program == "turngate"
    assert isinstance(group, TyperGroup)
    with group.make_context(program, [name]) as context:
        command = group.get_command(context, name)
        assert command is not None
        with command.make_context(name, options, parent=context) as parsed:
            assert parsed.args == []


def test_its_check_of_health_is_a_program() -> None:
    [check] = arguments("HEALTHCHECK")
    program, option, code = json.loads(check.partition(" CMD ")[2])
    assert (program, option) == ("python", "-c")
    compile(code, "healthcheck", "exec")


def test_the_services_name_the_database_that_is_started() -> None:
    services = yaml("compose.yaml")["services"]
    given = services["api"]["environment"]["TURNGATE_DATABASE_URL"]
    url = urlsplit(re.sub(r"\$\{.*?\}", "chosen", given))
    started = services["postgres"]
    user = started["environment"]["POSTGRES_USER"]
    assert (url.username, url.path) == (user, f"/{user}")
    assert url.hostname in services
    assert shlex.split(started["healthcheck"]["test"][1]) == ["pg_isready", "--username", user]


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
