"""Frames of clients are read strictly; absent members have the defaults of service.md 7."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.api.frames import CLIENT_FRAME, AckFrame, AuthFrame, CloseCode, PingFrame, SubscribeFrame


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ('{"type":"auth","token":"t"}', AuthFrame(type="auth", token="t")),  # noqa: S106 - no token
        (
            '{"type":"subscribe"}',
            SubscribeFrame(type="subscribe", after=0, mode="replay", window=256),
        ),
        (
            '{"window":1,"mode":"hold","after":7,"type":"subscribe"}',
            SubscribeFrame(type="subscribe", after=7, mode="hold", window=1),
        ),
        ('{"type":"ack","seq":0}', AckFrame(type="ack", seq=0)),
        ('{"type":"ping"}', PingFrame(type="ping")),
    ],
)
def test_a_frame_is_read(text: str, frame: object) -> None:
    assert CLIENT_FRAME.validate_json(text) == frame


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"type":"what"}',
        '{"type":"ping","extra":1}',
        '{"type":"auth","token":7}',
        '{"type":"ack"}',
        '{"type":"ack","seq":-1}',
        '{"type":"ack","seq":1.5}',
        '{"type":"ack","seq":"1"}',
        '{"type":"ack","seq":true}',
        '{"type":"ack","seq":9007199254740992}',
        '{"type":"subscribe","window":0}',
        '{"type":"subscribe","window":4097}',
        '{"type":"subscribe","mode":"follow"}',
        '{"type":"subscribe","after":null}',
    ],
)
def test_a_malformed_frame_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        CLIENT_FRAME.validate_json(text)


def test_the_close_codes_that_the_house_gives_are_those_of_the_contract() -> None:
    assert {code.name: code.value for code in CloseCode} == {
        "END": 1000,
        "DRAIN": 1001,
        "INTERNAL": 1011,
        "SLOW": 1013,
        "PROTOCOL": 4400,
        "AUTH": 4401,
        "FORBIDDEN": 4403,
        "MISSING": 4404,
        "SUBSCRIBE_TIMEOUT": 4408,
        "TOO_MANY": 4429,
    }
