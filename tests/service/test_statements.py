"""The service's own key: where it is kept, and what is published and verified of all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.errors import Misconfigured
from app.service.statements import Statements, service_key
from app.store.keys.private_file import kept
from app.trust.keys import derive_signing_key
from app.trust.statement import StatementKind
from tests.support.stepped_clock import SteppedClock
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from pathlib import Path

    from app.store.open import Store

KIND = StatementKind.QUESTION_ANSWER
OURS = derive_signing_key(b"ours".ljust(40, b"."))
THEIRS = derive_signing_key(b"theirs".ljust(40, b"."))


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    clock = SteppedClock()
    first = service_key(None, tmp_path / "data", clock, kept=kept)
    again = service_key(None, tmp_path / "data", clock, kept=kept)
    other = service_key(None, tmp_path / "other", clock, kept=kept)
    assert first.public.jwk() == again.public.jwk()
    assert first.public.jwk() != other.public.jwk()
    assert (tmp_path / "data" / "service-key.pem").stat().st_mode & 0o777 == 0o600


def test_the_key_of_the_setting_goes_first_and_leaves_no_file(tmp_path: Path) -> None:
    key = service_key(OURS.pem().decode(), tmp_path, SteppedClock(), kept=kept)
    assert key.public.jwk() == OURS.public.jwk()
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_no_key_is_refused_by_its_name_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as refused:
        service_key("hunter2", tmp_path, SteppedClock(), kept=kept)
    assert str(refused.value) == "TURNGATE_SIGNING_KEY: the private key is no unencrypted PEM"


def test_a_damaged_file_is_refused_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "service-key.pem"
    path.write_bytes(b"hunter2")
    with pytest.raises(Misconfigured, match=str(path)):
        service_key(None, tmp_path, SteppedClock(), kept=kept)
    assert path.read_bytes() == b"hunter2"


@pytest.mark.postgres
async def test_a_process_verifies_what_another_signed(store: Store) -> None:
    """Keys that only one process has: the public halves meet in the database."""
    clock = SteppedClock()
    here, there = Statements(OURS, store.service_keys), Statements(THEIRS, store.service_keys)
    stated = there.sign(KIND, {"tenant": "acme"})
    assert await here.verified(KIND, stated) is None
    await here.publish(clock)
    await there.publish(clock)
    await there.publish(clock)
    assert await here.verified(KIND, stated) == {"tenant": "acme"}
    assert await here.verified(StatementKind.SEAL, stated) is None
    published = await here.published()
    assert published[here.kid].jwk() == OURS.public.jwk()
    assert published[there.kid].jwk() == THEIRS.public.jwk()


@pytest.mark.postgres
async def test_nobody_elses_word_is_a_statement_of_the_service(store: Store) -> None:
    statements = Statements(OURS, store.service_keys)
    header = {"alg": "ES256", "kid": statements.kid, "typ": "turngate-question-answer+jws"}
    forged = Signer.of(99).jws(header, compact({"typ": "turngate.question-answer"}))
    assert await statements.verified(KIND, forged) is None
    assert await statements.verified(KIND, "no JWS") is None
