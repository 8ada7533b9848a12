"""Every member of the description says what it is, and no line speaks of what is not there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.api import members
from app.api.app import openapi_document
from app.api.resources.service import PUBLISHED, published_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 110


@pytest.fixture(scope="module")
def schemas() -> list[tuple[str, dict[str, Any]]]:
    """Every schema of the description, and of those that are published beside it."""
    document = json.loads(openapi_document())
    return [*document["components"]["schemas"].items(), *_published()]


def _published() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, model in PUBLISHED.items():
        schema = published_schema(name)
        yield model.__name__, schema
        yield from schema.get("$defs", {}).items()


def lines() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(members.__file__).with_name("members.toml").read_text())


def test_every_member_says_what_it_is(schemas: list[tuple[str, dict[str, Any]]]) -> None:
    silent = [
        f"{name}.{member}"
        for name, schema in schemas
        for member, described in schema.get("properties", {}).items()
        if not described.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "member", "said"),
    [
        ("Run", "status", "Waiting its turn, driven, waiting for people, or how it ended"),
        ("Run", "principal", "Who created the run, and it acts for"),
        (
            "AgentSpec",
            "approval",
            "For each tool, server (`server:*`) or `*`: `allow`, `ask` or `veto`",
        ),
        ("BatchResult", "approval", "The approval as it is now"),
        ("CreateRun", "agent", "Name of an agent of the tenant"),
        ("RunStarted", "worker", "Worker process that took the run up"),
        ("ToolStarted", "worker", "The worker whose call it is; null for the run's own"),
    ],
)
def test_what_a_schema_says_itself_goes_before_what_is_said_anywhere(
    schemas: list[tuple[str, dict[str, Any]]], name: str, member: str, said: str
) -> None:
    found = [schema["properties"][member] for one, schema in schemas if one == name]
    assert found
    assert all(each["description"] == said for each in found)


def test_every_line_speaks_of_a_member_that_is_there(
    schemas: list[tuple[str, dict[str, Any]]],
) -> None:
    there = {(name, member) for name, schema in schemas for member in schema.get("properties", {})}
    said = lines()
    anywhere = said.pop("anywhere")
    assert anywhere.keys() <= {member for _, member in there}
    assert {(name, member) for name, own in said.items() for member in own} <= there


def test_a_line_is_a_line_in_one_form() -> None:
    for said in lines().values():
        assert list(said) == sorted(said)
        for line in said.values():
            assert len(line) <= LONGEST, line
            assert line[0].isupper() or line[0] in "`1", line
            assert not line.endswith("."), line
