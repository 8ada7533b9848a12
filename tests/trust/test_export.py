"""The offline verifier: a sound export has no findings, and each kind of tampering has one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.chain import ChainRecord, link
from app.trust.export import (
    ExportedPasskey,
    Finding,
    Report,
    Unreadable,
    header_line,
    verify_export,
)
from app.trust.keys import derive_signing_key
from app.trust.seal import Seal, sign_seal
from tests.support.authenticator import RP_ID, Authenticator
from tests.trust.decisions import KEY
from tests.trust.logs import (
    DECIDED,
    HEADER,
    ROWS,
    SIGNED,
    Row,
    append,
    body,
    lines,
    records,
    seal_row,
)
from tests.trust.signer import b64, compact

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG = records()
SOUND = lines(LOG)
CHAIN = "hash does not cover body and private bytes"


def findings(exported: Iterable[bytes]) -> list[Finding]:
    report = verify_export(exported)
    assert isinstance(report, Report)
    return report.findings


def test_a_sound_export_has_no_findings() -> None:
    assert verify_export(SOUND) == Report(events=6, decisions=1, findings=[])


def test_what_was_written_after_the_last_seal_is_counted() -> None:
    """Anybody could have: the chain needs no key."""
    log = list(LOG)
    append(log, Row("run.queued", {}))
    append(log, Row("message.user", {}))
    assert verify_export(lines(log)) == Report(events=8, decisions=1, findings=[], unsealed=2)


def test_a_decision_by_passkey_is_sound_with_what_the_export_brings() -> None:
    authenticator = Authenticator.of(11)
    told = DECIDED | {"assurance": "passkey", "key_id": "passkey_1"}
    decided = Row("approval.decided", told, compact(authenticator.sign(compact(SIGNED))))
    log = records((*ROWS[:2], decided, *ROWS[3:]))
    exported = {
        "id": "passkey_1",
        "credential_id": b64(authenticator.credential_id),
        "public_key": b64(authenticator.cose()),
        "rp_id": RP_ID,
        "principal": "alice",
    }
    for changed, found in (({}, []), ({"public_key": "="}, ["the assertion does not hold"])):
        header = HEADER.model_copy(update={"passkeys": [ExportedPasskey(**exported | changed)]})
        report = findings([header_line(header), *lines(log)[1:]])
        assert [one.what for one in report if one.where == "seq 3"] == found


def test_an_empty_log_and_a_log_with_two_seals_are_sound() -> None:
    assert findings(SOUND[:1]) == []
    log = records()
    append(log, Row("run.created", {}))
    append(log, seal_row(log, 6))
    assert findings(lines(log)) == []


@pytest.mark.parametrize(("levels", "found"), [(78, 0), (79, 1)])
def test_an_event_may_nest_as_deep_as_arguments_in_it_can(levels: int, found: int) -> None:
    # The event and its data are two levels more.
    nested = json.loads("[" * levels + "]" * levels)
    assert len(findings(lines(records((Row("run.created", {"nested": nested}),))))) == found


def test_the_format_is_json_lines_that_name_themselves() -> None:
    header = json.loads(SOUND[0])
    assert (header["format"], header["kind"]) == (1, "turngate.export")
    assert header["keys"] == [{"id": "key_1", "public_jwk": KEY.jwk, "principal": "alice"}]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in SOUND)
    assert json.loads(SOUND[1])["private"] is None


def _header(**changed: Any) -> bytes:
    return json.dumps(json.loads(SOUND[0]) | changed).encode()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"{}",
        b"\xff",
        _header(format=2),
        _header(kind="other"),
        _header(keys=[{"id": "k", "public_jwk": {"kty": "oct"}, "principal": "a"}]),
        _header(seal_keys=[{"kid": "a", **KEY.jwk}, {"kid": "a", **KEY.jwk}]),
    ],
    ids=["empty", "no header", "binary", "newer", "other kind", "unsound key", "one kid twice"],
)
def test_a_file_that_is_no_export_is_unreadable(first: bytes) -> None:
    assert isinstance(verify_export([first, *SOUND[1:]]), Unreadable)


def test_no_file_at_all_is_unreadable() -> None:
    assert isinstance(verify_export([]), Unreadable)


def _line(at: int, **changed: Any) -> bytes:
    return json.dumps(json.loads(SOUND[at]) | changed).encode()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"seq":1}', id="too little"),
        pytest.param(_line(2, body="?"), id="body no base64"),
        pytest.param(_line(2, private="é"), id="private no base64"),
        pytest.param(_line(2, body="e31="), id="base64 with idle bits"),
        pytest.param(_line(2, hash="00"), id="a short hash"),
    ],
)
def test_a_line_that_is_no_event_is_found_by_its_number(line: bytes) -> None:
    found = findings([*SOUND[:2], line, *SOUND[3:]])
    assert found[0].where == "line 3"


def _relinked(chained: list[ChainRecord], at: int, text: bytes) -> list[ChainRecord]:
    """The log with another body at seq `at`, and every hash from there on made good."""
    changed = list(chained[: at - 1])
    for record in chained[at - 1 :]:
        prev = changed[-1].hash if changed else bytes(32)
        now = text if record.seq == at else record.body
        digest = link(prev, now, record.private)
        changed.append(replace(record, body=now, prev_hash=prev, hash=digest))
    return changed


@dataclass(frozen=True)
class Tampered:
    id: str
    log: list[ChainRecord]
    found: list[Finding]


_GONE = "prev_hash is not the hash of the event before"
_ROOT = "the root of the seal is not the hash of its last event"
_OTHER_DATA = body(Row("conversation.created", {"principal": "mallory"}), 1)
_SEAL = json.loads(LOG[5].body)["data"]


def _resealed(**changed: Any) -> list[ChainRecord]:
    return _relinked(LOG, 6, body(Row("log.sealed", _SEAL | changed), 6))


def _said_otherwise(at: int, **changed: Any) -> list[ChainRecord]:
    text = json.dumps(json.loads(LOG[at - 1].body) | changed).encode()
    return [*LOG[: at - 1], replace(LOG[at - 1], body=text), *LOG[at:]]


def _sealed_by_another() -> list[ChainRecord]:
    seal = Seal("conv_1", from_seq=1, through_seq=5, count=5, root=_SEAL["root"])
    another = derive_signing_key(bytes(39) + b"\x01")
    return _resealed(signature=sign_seal(seal, key=another, kid="seal-1"))


def _inserted_before_the_seal() -> list[ChainRecord]:
    log = list(LOG[:5])
    append(log, Row("message.assistant", {"content": "FORGED"}))
    append(log, Row("log.sealed", _SEAL))
    return log


_TAMPERED = (
    Tampered("a body", [replace(LOG[0], body=_OTHER_DATA), *LOG[1:]], [Finding("seq 1", CHAIN)]),
    Tampered("a kind", _said_otherwise(5, type="run.failed"), [Finding("seq 5", CHAIN)]),
    Tampered("a tag", _said_otherwise(5, trust="trusted_user"), [Finding("seq 5", CHAIN)]),
    Tampered("another root", _resealed(root="0" * 64), [Finding("seq 6", _ROOT)]),
    Tampered(
        "a root by another key",
        _sealed_by_another(),
        [Finding("seq 6", "the seal does not hold: the signature does not hold")],
    ),
    Tampered(
        "private bytes",
        [*LOG[:4], replace(LOG[4], private=b"other"), LOG[5]],
        [Finding("seq 5", CHAIN)],
    ),
    Tampered(
        "an event left out",
        [*LOG[:4], LOG[5]],
        [
            Finding("seq 6", "seq must be 5, found 6"),
            Finding("seq 6", _ROOT),
        ],
    ),
    Tampered(
        "two events exchanged",
        [*LOG[:3], LOG[4], LOG[3], LOG[5]],
        [
            Finding("seq 5", "seq must be 4, found 5"),
            Finding("seq 4", "seq must be 6, found 4"),
            Finding("seq 6", "seq must be 5, found 6"),
        ],
    ),
    Tampered("a rewritten chain", _relinked(LOG, 1, _OTHER_DATA), [Finding("seq 6", _ROOT)]),
    Tampered(
        "another place in the body",
        _relinked(LOG, 1, body(ROWS[0], 2)),
        [
            Finding("seq 1", "the body is of another place or another conversation"),
            Finding("seq 6", _ROOT),
        ],
    ),
    Tampered(
        "another conversation in the body",
        _relinked(LOG, 1, body(ROWS[0], 1, "conv_2")),
        [
            Finding("seq 1", "the body is of another place or another conversation"),
            Finding("seq 6", _ROOT),
        ],
    ),
    Tampered(
        "a body that is no JSON",
        _relinked(LOG, 1, b"{"),
        [
            Finding("seq 1", "body: expected one JSON object with no member twice"),
            Finding("seq 6", _ROOT),
        ],
    ),
    Tampered(
        "a decision told otherwise, resealed",
        records((*ROWS[:2], replace(ROWS[2], data=DECIDED | {"scope": "session"}), ROWS[0])),
        [Finding("seq 3", "the event tells other than what was signed")],
    ),
    Tampered(
        "a seal that starts late",
        _resealed(from_seq=2),
        [Finding("seq 6", "the seal does not follow the one before it")],
    ),
    Tampered(
        "a seal that counts wrong",
        _resealed(count=4),
        [Finding("seq 6", "the seal does not follow the one before it")],
    ),
    Tampered(
        "a seal taken away",
        list(LOG[:5]),
        [Finding("seq 5", "no seal covers this end of a turn")],
    ),
    Tampered(
        "a log rewritten and left without its seals",
        list(_relinked(LOG, 1, _OTHER_DATA)[:5]),
        [Finding("seq 5", "no seal covers this end of a turn")],
    ),
    Tampered(
        "an event put before a seal, and all linked anew",
        _inserted_before_the_seal(),
        [Finding("seq 7", "the seal does not reach to the event before it")],
    ),
    Tampered("a seal of the future", _resealed(through_seq=2**62), [Finding("seq 6", _ROOT)]),
    Tampered(
        "a seal by an unknown key",
        _resealed(kid="seal-2"),
        [Finding("seq 6", "the key of the seal is not in the export")],
    ),
    Tampered(
        "a forged seal",
        _resealed(signature="A" * 86),
        [Finding("seq 6", "the seal does not hold: the signature does not hold")],
    ),
    Tampered(
        "a seal without its fields",
        _relinked(LOG, 6, body(Row("log.sealed", {}), 6)),
        [Finding("seq 6", "/from_seq: Field required")],
    ),
)


@pytest.mark.parametrize("case", _TAMPERED, ids=lambda case: case.id)
def test_tampering_is_found_where_it_happened(case: Tampered) -> None:
    """T140."""
    assert findings(lines(case.log)) == case.found


def test_a_break_is_told_once_and_the_rest_is_still_checked() -> None:
    log = [LOG[0], replace(LOG[1], prev_hash=bytes(32)), *LOG[2:]]
    assert findings(lines(log)) == [Finding("seq 2", _GONE)]


def test_without_the_key_of_the_approver_a_decision_proves_nothing() -> None:
    found = findings(lines(LOG, HEADER.model_copy(update={"keys": []})))
    assert [finding.where for finding in found] == ["seq 3", "seq 4"]


@given(at=st.integers(0, len(b"".join(SOUND)) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_found(at: int, bit: int) -> None:
    """T140: in the header and its keys as well, for this log is sealed to its end."""
    text = bytearray(b"".join(SOUND))
    text[at] ^= 1 << bit
    report = verify_export(bytes(text).splitlines(keepends=True))
    assert isinstance(report, Unreadable) or report.findings


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_random_lines_raise_nothing(rest: list[bytes]) -> None:
    assert isinstance(verify_export([SOUND[0], *rest]), Report)
    assert isinstance(verify_export(rest), Unreadable)
