"""The development issuer: its document, and the tokens it makes (service.md 2)."""

from __future__ import annotations

import pytest

from app.service.access.development import (
    DevelopmentIssuer,
    IssuerUnreadable,
    TokenOrder,
    UnknownScope,
)
from tests.support.stepped_clock import SteppedClock


def test_an_issuer_comes_back_from_its_document() -> None:
    first = DevelopmentIssuer.from_chance(bytes(range(40)))
    again = DevelopmentIssuer.from_document(first.document())
    assert again.keys() == first.keys()
    assert b"turngate-development" in first.document()


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b"[]", b'{"private_pem": 5}', b'{"private_pem": "none"}', b"\xff"],
)
def test_a_damaged_document_is_refused(document: bytes) -> None:
    with pytest.raises(IssuerUnreadable):
        DevelopmentIssuer.from_document(document)


def test_a_scope_that_opens_nothing_is_refused_by_name() -> None:
    signer = DevelopmentIssuer.from_chance(bytes(range(40)))
    order = TokenOrder("acme", "alice", ("runs:read", "runs:rule"))
    with pytest.raises(UnknownScope, match="runs:rule"):
        signer.token(order, audience="turngate", clock=SteppedClock())
