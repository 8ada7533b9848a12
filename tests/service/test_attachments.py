"""Attachments between the log and a turn: kept without bytes, read again (run-context.md 3.7)."""

from __future__ import annotations

from dataclasses import replace

from app.engine.messages import UserImage, UserText
from app.policy.taint import Trust
from app.runctx.context import ContextFacts
from app.service.attachments import attachments, with_bytes
from app.service.run_context import KeptContext, context_assembled, kept_context
from tests.runctx.attached import MINE, PNG, Shelf, Tools, ref, view
from tests.service.test_run_context import event, started

INLINE = view(disposition="inline", content=PNG)
UNREAD = replace(INLINE, content=None)


async def test_a_run_that_resumes_in_its_first_step_reads_the_bytes_again() -> None:
    """C98, where another worker retries the step."""
    referred = view("art_2", "text/plain", disposition="ref")
    shelf = Shelf(ref("art_1"))
    again = await with_bytes([UNREAD, referred], shelf, MINE.session_scope())
    assert again == (INLINE, referred)
    assert shelf.asked == [("get", "art_1")]


async def test_bytes_that_are_at_hand_are_not_read_again() -> None:
    shelf = Shelf(ref("art_1"))
    assert await with_bytes([INLINE], shelf, MINE) == (INLINE,)
    assert shelf.asked == []


async def test_c145_a_file_whose_bytes_are_gone_or_altered_becomes_a_reference() -> None:
    gone, altered = Shelf(), Shelf(ref("art_1"))
    altered.failing.add("bytes of art_1")
    for shelf in (gone, altered):
        assert await with_bytes([UNREAD], shelf, MINE) == (replace(UNREAD, disposition="ref"),)


def test_views_are_kept_without_their_bytes_and_read_back() -> None:
    assembled = context_assembled(
        KeptContext(views=(INLINE,)),
        ContextFacts(),
        run_id="run_1",
        turn_id="turn_1",
        history_messages=0,
    )
    assert assembled.private is not None
    assert b"picture" not in assembled.private
    assert kept_context([event(assembled), started()]) == KeptContext(views=(UNREAD,))


def test_untrusted_content_of_an_attachment_taints_the_context() -> None:
    untrusted = replace(INLINE, trust=Trust.QUARANTINED_CONTENT)
    assert KeptContext(views=(untrusted,)).is_tainted
    assert not KeptContext(views=(replace(untrusted, disposition="ref"),)).is_tainted
    assert not KeptContext(views=(INLINE,)).is_tainted


def test_c95_a_referred_document_is_left_to_its_stub() -> None:
    parts = attachments([view(mime="application/pdf", disposition="ref")], Tools())
    assert parts is not None
    assert parts.opening == parts.later
    assert [type(part) for part in parts.opening] == [UserText]


def test_an_image_is_a_data_url_of_its_plain_type() -> None:
    parts = attachments([replace(INLINE, mime="IMAGE/PNG; a=b", content=b"\x00")], Tools())
    assert parts is not None
    assert parts.opening == (
        UserImage(media_type="image/png", source="data:image/png;base64,AA=="),
    )


def test_no_attachment_is_nothing_to_add() -> None:
    assert attachments([], Tools()) is None
