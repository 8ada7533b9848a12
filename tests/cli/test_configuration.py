"""Settings that do not hold are refused by name, in one line, without their value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.cli.configuration import read_settings
from app.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Case:
    id: str
    environment: Mapping[str, str]
    message: str


CASES = [
    Case(
        "a number out of bounds",
        {"TURNGATE_SOCKETS": "0"},
        "TURNGATE_SOCKETS: Input should be greater than or equal to 1",
    ),
    Case(
        "half of a feature",
        {"TURNGATE_JWT_ISSUER": "https://issuer.example"},
        "TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS come together",
    ),
    Case(
        "production without an issuer of its own",
        {"TURNGATE_ENV": "production"},
        "production needs TURNGATE_JWT_ISSUER and TURNGATE_JWT_JWKS: "
        "the development issuer is refused there",
    ),
    Case(
        "a root of the sandbox that is no folder",
        {"TURNGATE_SANDBOX_ROOTS": "/usr, relative"},
        "TURNGATE_SANDBOX_ROOTS: relative is no absolute path of a folder",
    ),
    Case(
        "a root of the sandbox that holds the keys",
        {"TURNGATE_SANDBOX_ROOTS": "/"},
        "TURNGATE_SANDBOX_ROOTS: / holds the data directory",
    ),
    Case(
        "a placeholder in the place of a key",
        {"TURNGATE_OPENAI_API_KEY": "ChangeMe"},
        "TURNGATE_OPENAI_API_KEY is a placeholder, not a key",
    ),
    Case(
        "a placeholder inside a map",
        {"TURNGATE_COMPATIBLE": '{"local": {"base_url": "http://a.example", "api_key": "xxx"}}'},
        "TURNGATE_COMPATIBLE.local.api_key is a placeholder, not a key",
    ),
    Case(
        "a part of a map",
        {"TURNGATE_COMPATIBLE": '{"local": {"api_key": "very-private"}}'},
        "TURNGATE_COMPATIBLE.local.base_url: Field required",
    ),
    Case(
        "a map that is no JSON",
        {"TURNGATE_COMPATIBLE": '{"local": very-private'},
        "TURNGATE_COMPATIBLE: not valid JSON",
    ),
    Case(
        "two at once",
        {"TURNGATE_ENV": "moon", "TURNGATE_OPEN_RUNS": "many"},
        "TURNGATE_ENV: Input should be 'development' or 'production'; "
        "TURNGATE_OPEN_RUNS: Input should be a valid integer, "
        "unable to parse string as an integer",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_wrong_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as refused:
        read_settings()
    assert str(refused.value) == case.message
    assert refused.value.__cause__ is None


def test_settings_that_hold_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGATE_SOCKETS", "7")
    assert read_settings().sockets == 7


def test_an_empty_variable_is_one_that_nobody_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNGATE_DATABASE_URL", "")
    monkeypatch.setenv("TURNGATE_LEASE_TTL_S", "")
    settings = read_settings()
    assert (settings.database_url, settings.lease_ttl_s) == (None, 10.0)
