"""Attachments between the log and a turn: kept without bytes, read again (run-context.md 3.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.engine.messages import UserAudio, UserDocument, UserImage, UserText
from app.policy.taint import Trust
from app.runctx.context import ContextFacts
from app.service.context.assembly import KeptContext, context_assembled, kept_context
from app.service.context.attachments import attachments, with_bytes
from tests.runctx.attached import MINE, PNG, Shelf, Tools, ref, view
from tests.service.context.test_assembly import event, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import UserContent
    from app.runctx.shapes import InputArtifactView
    from app.turn.agent import Attachments

INLINE = view(disposition="inline", content=PNG)
UNREAD = replace(INLINE, content=None)


async def unread(artifact_id: str) -> bytes | None:
    raise AssertionError(artifact_id)


def shown(*views: InputArtifactView) -> Attachments | None:
    return attachments(views, Tools(), identity=MINE, read=unread)


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
    parts = attachments(
        [view(mime="application/pdf", disposition="ref")], Tools(), identity=MINE, read=unread
    )
    assert parts is not None
    assert parts.opening == parts.later
    assert [type(part) for part in parts.opening] == [UserText]


def test_an_image_is_a_data_url_of_its_plain_type() -> None:
    parts = attachments(
        [replace(INLINE, mime="IMAGE/PNG; a=b", content=b"\x00")],
        Tools(),
        identity=MINE,
        read=unread,
    )
    assert parts is not None
    assert parts.opening == (
        UserImage(media_type="image/png", source="data:image/png;base64,AA=="),
    )


def test_no_attachment_is_nothing_to_add() -> None:
    assert shown() is None


def test_c75_what_a_provider_is_to_get_is_named_by_its_source_and_not_read() -> None:
    """run-context.md 4.5: an image has its stub beside it, a document in its place at most."""
    kinds = ("IMAGE/PNG; a=b", "application/pdf", "audio/mpeg", "odd")
    image, pdf, sound, odd = (
        view(f"art_{at}", kind, disposition="provider_native", filename="a b.x")
        for at, kind in enumerate(kinds, 1)
    )
    parts = shown(image, pdf, sound, odd)
    assert parts is not None
    first, stub, *others = parts.opening
    assert first == UserImage(media_type="image/png", source="artifact:art_1")
    assert stub == parts.later[0]
    assert others == [
        UserDocument(media_type="application/pdf", source="artifact:art_2"),
        UserAudio(media_type="audio/mpeg", source="artifact:art_3"),
        UserDocument(media_type="", source="artifact:art_4"),
    ]
    files = {file.id: file for file in parts.files}
    assert [file.media_type for file in parts.files] == [
        *("image/png", "application/pdf", "audio/mpeg", "application/octet-stream")
    ]
    assert {file.identity for file in parts.files} == {MINE.session_scope()}
    assert (files["art_1"].stub, files["art_2"].stub) == ("", texts(parts.later)[1])
    assert (files["art_2"].sha256, files["art_2"].filename) == (pdf.sha256, "a b.x")


def texts(contents: Sequence[UserContent]) -> list[str]:
    return [one.text for one in contents if isinstance(one, UserText)]
