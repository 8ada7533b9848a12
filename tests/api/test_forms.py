"""A form as it comes in: its file is to the byte what was sent, wherever the chunks are cut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.forms import AROUND_BYTES, FileForm
from app.service.refusals import RequestInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

FILE: Final = (
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\n"
)
TALK: Final = b'--B\r\nContent-Disposition: form-data; name="conversation_id"\r\n\r\nconv_1\r\n'
END: Final = b"\r\n--B--\r\n"
# What a delimiter is made of, and lines that begin as one does.
LIKE_A_DELIMITER: Final = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"-", b"B", b"x", b"\r\n", b"\r\n--", b"\r\n--C", b"--B", b"\n--B"]
    )
).map(b"".join)


async def read(chunks: Iterable[bytes]) -> tuple[bytes, dict[str, str]]:
    """The file of a form, and its fields. Raises RequestInvalid."""

    async def coming() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    form = FileForm("multipart/form-data; boundary=B", coming())
    await form.open()
    content = b"".join([piece async for piece in form.content()])
    assert (form.filename, form.mime) == ("a.txt", "text/plain")
    return content, form.fields


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    """The body in chunks; some of them may be empty."""
    ends = sorted(place % (len(body) + 1) for place in places)
    return [body[begin:end] for begin, end in zip([0, *ends], [*ends, len(body)], strict=True)]


@given(LIKE_A_DELIMITER, st.lists(st.integers(min_value=0), max_size=8), st.booleans())
def test_a_file_is_what_was_sent_wherever_the_chunks_are_cut(
    content: bytes, places: list[int], has_field_first: bool
) -> None:
    content = b"." + content.replace(b"\r\n--B", b"\r\n--C")
    body = (
        TALK + FILE + content + END
        if has_field_first
        else FILE + content + b"\r\n" + TALK[:-2] + END
    )
    fields = {"conversation_id": "conv_1"}
    assert asyncio.run(read(cut(body, places))) == (content, fields)


def test_a_form_comes_a_byte_at_a_time() -> None:
    body = TALK + FILE + b"\r\n--\r\n-" + END
    chunks = [body[at : at + 1] for at in range(len(body))]
    assert asyncio.run(read(chunks)) == (b"\r\n--\r\n-", {"conversation_id": "conv_1"})


@pytest.mark.parametrize(
    "body",
    [
        TALK + TALK + FILE + b"x" + END,
        TALK + FILE + b"x\r\n" + TALK[:-2] + END,
        FILE + b"x\r\n" + FILE + b"y" + END,
        FILE + b"x\n--B--\n",
        FILE + b"x\r\n--B-",
        FILE + b"x\r\n--B\r\n",
        FILE.replace(b"filename=", b"filename*=") + b"x" + END,
    ],
    ids=[
        "two fields",
        "a field on either side",
        "two files",
        "bare line feeds",
        "half an end",
        "no part after the last",
        "a name in the extended form alone",
    ],
)
def test_what_is_no_form_of_one_file_and_one_field_is_refused(body: bytes) -> None:
    with pytest.raises(RequestInvalid):
        asyncio.run(read([body]))


def test_what_stands_around_a_file_is_bounded_and_the_file_is_not() -> None:
    large = b"x" * (8 * AROUND_BYTES)
    assert asyncio.run(read([FILE + large, large, END])) == (large + large, {})
    for chunks in ([b"\r\n" + large, FILE + b"x" + END], [FILE, b"x" + END, large]):
        with pytest.raises(RequestInvalid):
            asyncio.run(read(chunks))
