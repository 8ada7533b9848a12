from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from app.api.frames import CloseCode
from app.api.stream.session import (
    Acknowledge,
    Authenticate,
    Close,
    FrameRate,
    SendPong,
    SocketSession,
    Subscribe,
)
from app.service.access.tokens import Authenticated
from app.service.caller import Caller
from app.service.refusals import ScopeMissing
from app.service.streams.use_cases import Opening

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SUBSCRIBE = '{"type":"subscribe","after":5}'


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def token_of(
    principal: str = "alice",
    *,
    tenant: str = "acme",
    lasts: float = 3600,
    scope: str = "runs:read",
) -> Authenticated:
    """Somebody whose token lasts so many seconds from noon."""
    caller = Caller(tenant, principal, frozenset({scope}))
    return Authenticated(caller, expires_at=later(lasts), issued_at=NOON, jti=None)


def known(lasts: float = 3600) -> SocketSession:
    """A session of Alice's that has not subscribed."""
    session = SocketSession(NOON)
    assert session.authenticated(token_of(lasts=lasts), NOON) is None
    return session


def subscribed(lasts: float = 3600) -> SocketSession:
    """A session of Alice's that follows from seq 5."""
    session = known(lasts)
    assert session.receive(SUBSCRIBE) == Subscribe(Opening(5))
    return session


def closed(action: object) -> tuple[CloseCode, str | None]:
    """The close code and the error's code."""
    assert isinstance(action, Close)
    return action.code, action.error


def test_a_session_goes_from_auth_to_subscribe_to_acks() -> None:
    session = SocketSession(NOON)
    assert session.receive('{"type":"auth","token":"t"}') == Authenticate("t")
    assert session.authenticated(token_of(), NOON) is None
    assert session.receive('{"type":"subscribe"}') == Subscribe(Opening(0, None))
    session.sent(7)
    assert session.receive('{"type":"ack","seq":7}') == Acknowledge(7)
    assert session.receive('{"type":"ping"}') == SendPong()


def test_a_window_is_asked_for_in_hold_mode_only() -> None:
    assert known().receive('{"type":"subscribe","mode":"hold"}') == Subscribe(Opening(0, 256))
    frame = '{"type":"subscribe","mode":"hold","window":1,"after":3}'
    assert known().receive(frame) == Subscribe(Opening(3, 1))
    assert known().receive('{"type":"subscribe","window":1}') == Subscribe(Opening(0, None))


@dataclass(frozen=True)
class Case:
    """A frame that closes the socket of somebody known who has not subscribed."""

    frame: str | bytes
    error: str


MALFORMED = [
    Case("not json", "frame.malformed"),
    Case("[]", "frame.malformed"),
    Case("{}", "frame.malformed"),
    Case('{"type":1}', "frame.malformed"),
    Case('{"type":"ping","type":"ping"}', "frame.malformed"),
    Case('{"type":"ping","more":1}', "frame.malformed"),
    Case(b"\x00", "frame.malformed"),
    Case(b'{"type":"ping"}', "frame.malformed"),
    Case('{"type":"what"}', "frame.unknown"),
    Case('{"type":"auth"}', "frame.malformed"),
    Case('{"type":"auth","token":1}', "frame.malformed"),
    Case('{"type":"subscribe","after":-1}', "frame.malformed"),
    Case('{"type":"subscribe","after":"1"}', "frame.malformed"),
    Case('{"type":"subscribe","after":1.0}', "frame.malformed"),
    Case('{"type":"subscribe","after":1e0}', "frame.malformed"),
    Case('{"type":"subscribe","after":true}', "frame.malformed"),
    Case('{"type":"subscribe","after":null}', "frame.malformed"),
    Case('{"type":"subscribe","after":1000000000000000000}', "frame.malformed"),
    Case('{"type":"subscribe","window":0}', "frame.malformed"),
    Case('{"type":"subscribe","window":4097}', "frame.malformed"),
    Case('{"type":"subscribe","mode":"fast"}', "frame.malformed"),
    Case('{"type":"subscribe","extra":1}', "frame.malformed"),
    Case('{"type":"ack","seq":0}', "stream.ack"),
    Case('{"type":"ack"}', "frame.malformed"),
    Case('{"type":"ack","seq":NaN}', "frame.malformed"),
    Case("[" * 100, "frame.malformed"),
]


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: str(case.frame)[:48])
def test_a_frame_outside_the_protocol_closes_with_4400(case: Case) -> None:
    assert closed(known().receive(case.frame)) == (CloseCode.PROTOCOL, case.error)


def test_a_second_subscribe_closes_with_4400() -> None:
    assert closed(subscribed().receive(SUBSCRIBE)) == (CloseCode.PROTOCOL, "frame.malformed")


def test_an_ack_may_name_what_the_client_had_or_was_sent_and_nothing_beyond() -> None:
    session = subscribed()
    assert session.receive('{"type":"ack","seq":5}') == Acknowledge(5, is_news=False)
    assert closed(session.receive('{"type":"ack","seq":6}')) == (CloseCode.PROTOCOL, "stream.ack")
    session.sent(9)
    assert session.receive('{"type":"ack","seq":9}') == Acknowledge(9)
    assert closed(session.receive('{"type":"ack","seq":10}')) == (CloseCode.PROTOCOL, "stream.ack")


def test_an_ack_is_news_once() -> None:
    session = subscribed()
    session.sent(9)
    acks = [session.receive(f'{{"type":"ack","seq":{seq}}}') for seq in (8, 8, 7, 9)]
    assert acks == [
        Acknowledge(8, is_news=True),
        Acknowledge(8, is_news=False),
        Acknowledge(7, is_news=False),
        Acknowledge(9, is_news=True),
    ]


@pytest.mark.parametrize("frame", [SUBSCRIBE, '{"type":"ping"}', '{"type":"ack","seq":0}'])
def test_whoever_is_unknown_says_auth_first(frame: str) -> None:
    assert closed(SocketSession(NOON).receive(frame)) == (CloseCode.AUTH, "auth.token")


def test_malformed_is_malformed_whoever_says_it() -> None:
    assert closed(SocketSession(NOON).receive("{")) == (CloseCode.PROTOCOL, "frame.malformed")


def test_a_new_token_of_the_same_person_prolongs_the_session() -> None:
    session = subscribed(lasts=10)
    assert session.seconds_left(NOON) == 40
    assert session.authenticated(token_of(lasts=100), later(5)) is None
    assert session.seconds_left(later(5)) == 125


@pytest.mark.parametrize(
    "who", [token_of("bob"), token_of(tenant="other")], ids=["another subject", "another tenant"]
)
def test_a_new_token_of_anybody_else_closes_with_4403(who: Authenticated) -> None:
    close = subscribed().authenticated(who, NOON)
    assert close is not None
    assert close.code is CloseCode.FORBIDDEN


def test_a_new_token_that_may_not_read_does_not_prolong_a_stream() -> None:
    with pytest.raises(ScopeMissing):
        subscribed().authenticated(token_of(scope="approvals:read"), NOON)


def test_ten_seconds_to_authenticate() -> None:
    session = SocketSession(NOON)
    assert session.seconds_left(later(4)) == 6
    assert session.overdue(later(10)).code is CloseCode.AUTH


def test_ten_seconds_to_subscribe_once_known() -> None:
    session = SocketSession(NOON)
    session.authenticated(token_of(), later(8))
    assert session.seconds_left(later(8)) == 10
    assert session.overdue(later(18)).code is CloseCode.SUBSCRIBE_TIMEOUT


def test_a_refresh_does_not_give_more_time_to_subscribe() -> None:
    session = known()
    session.authenticated(token_of(), later(9))
    assert session.seconds_left(later(9)) == 1


def test_a_token_counts_for_thirty_seconds_more_than_it_says() -> None:
    session = subscribed(lasts=60)
    assert session.seconds_left(NOON) == 90
    assert session.seconds_left(later(100)) == 0
    assert session.overdue(later(90)).code is CloseCode.AUTH


def test_a_token_that_ends_before_the_subscribe_frame_closes_with_4401() -> None:
    session = known(lasts=-25)
    assert session.seconds_left(NOON) == 5
    assert session.overdue(later(5)).code is CloseCode.AUTH


def test_fifty_frames_come_at_once_and_the_rest_at_fifty_a_second() -> None:
    rate = FrameRate(0.0)
    assert [rate.wait_after_frame(0.0) for _ in range(50)] == [0.0] * 50
    assert rate.wait_after_frame(0.0) == pytest.approx(0.02)
    assert rate.wait_after_frame(0.02) == pytest.approx(0.02)
    assert rate.wait_after_frame(10.0) == 0.0
