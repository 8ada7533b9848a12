"""Settings that do not hold are refused by name, in one line, without their value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from app.cli.configuration import read_settings
from app.cli.logs import warn_of_unknown
from app.errors import Misconfigured
from app.settings import unknown_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Case:
    id: str
    environment: Mapping[str, str]
    message: str


PRODUCTION = {
    "TURNGATE_ENV": "production",
    "TURNGATE_JWT_ISSUER": "https://issuer.example",
    "TURNGATE_JWT_JWKS": "https://issuer.example/keys",
}
CASES = [
    Case(
        "a number out of bounds",
        {"TURNGATE_SOCKETS": "0"},
        "TURNGATE_SOCKETS: Input should be greater than or equal to 1",
    ),
    Case(
        "a step cap that is no number",
        {"TURNGATE_MAX_STEPS": "x"},
        "TURNGATE_MAX_STEPS: Input should be a valid integer, unable to parse string as an integer",
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
        "a key set that is not where it is said to be",
        {"TURNGATE_JWT_ISSUER": "https://issuer.example", "TURNGATE_JWT_JWKS": "missing.json"},
        "TURNGATE_JWT_JWKS: neither a URL nor a file with a key set that can be read",
    ),
    Case(
        "a key set that is none",
        {"TURNGATE_JWT_ISSUER": "https://issuer.example", "TURNGATE_JWT_JWKS": "/dev/null"},
        "TURNGATE_JWT_JWKS: neither a URL nor a file with a key set that can be read",
    ),
    Case(
        "a name in production that is no setting",
        PRODUCTION | {"TURNGATE_ALLOWED_ORIGIN": "https://shop.example", "TURNGATE_RATE": "1"},
        "TURNGATE_ALLOWED_ORIGIN: no such setting; TURNGATE_RATE: no such setting",
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
        "passkeys of a domain that no page is on",
        {
            "TURNGATE_RP_ID": "shop.example",
            "TURNGATE_ALLOWED_ORIGINS": "https://notshop.example, https://shop.example.evil.test",
        },
        "TURNGATE_RP_ID needs one of TURNGATE_ALLOWED_ORIGINS on it or below it",
    ),
    Case(
        "a bucket that is none",
        {"TURNGATE_ARTIFACTS_BUCKET": "https://bucket.example"},
        "TURNGATE_ARTIFACTS_BUCKET: String should match pattern "
        "'^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*/?$'",
    ),
    Case(
        "half of a bucket's key",
        {"TURNGATE_ARTIFACTS_BUCKET": "s3://files", "TURNGATE_S3_ACCESS_KEY_ID": "AKIA"},
        "TURNGATE_S3_ACCESS_KEY_ID and TURNGATE_S3_SECRET_ACCESS_KEY come together",
    ),
    Case(
        "a region of no bucket",
        {"TURNGATE_S3_REGION": "eu-central-1"},
        "TURNGATE_S3_... without TURNGATE_ARTIFACTS_BUCKET is about no bucket",
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
    """T2: a step cap of the environment too."""
    monkeypatch.chdir(tmp_path)
    for name in unknown_names():
        monkeypatch.delenv(name)
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


def test_names_that_are_no_settings_are_found_in_both_places_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In development they are no reason to stop; in production they are."""
    monkeypatch.chdir(tmp_path)
    for name in unknown_names():
        monkeypatch.delenv(name)
    (tmp_path / ".env").write_text("TURNGATE_SOCKETS=7\n#TURNGATE_A=1\nexport TURNGATE_SOCKET=8\n")
    monkeypatch.setenv("TURNGATE_ALLOWED_ORIGIN", "https://shop.example")
    assert unknown_names() == ["TURNGATE_ALLOWED_ORIGIN", "TURNGATE_SOCKET"]
    assert read_settings().sockets == 7
    with capture_logs() as logs:
        warn_of_unknown()
    assert [(each["event"], each["names"]) for each in logs] == [
        ("settings.unknown", ["TURNGATE_ALLOWED_ORIGIN", "TURNGATE_SOCKET"])
    ]
    for name, value in PRODUCTION.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured, match="TURNGATE_SOCKET: no such setting"):
        read_settings()
