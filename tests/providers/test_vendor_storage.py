"""Files at OpenAI and Anthropic, from servers that speak their APIs: C99."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.engine.messages import UserDocument, UserImage, UserMessage, UserText
from app.providers.native_files import NativeFiles
from app.turn.ports import FailureKind
from tests.providers.native import ALICE, BYTES, FILE_PART, GONE, SAID, UPLOADED, Bytes, native
from tests.providers.played import NotedClock, reply
from tests.providers.vendors import CHAT, CLAUDE, REQUEST, asking
from tests.support.loopback.model_servers import Answer, chat, chat_piece, refused
from tests.support.loopback.search_servers import GEMINI, OPENAI

if TYPE_CHECKING:
    from app.turn.native_files import NativeFile
    from app.turn.ports import ModelRequest

STORING = pytest.mark.parametrize("model", [OPENAI, CLAUDE])


@dataclass
class PassingClock(NotedClock):
    """A clock that a test moves."""

    now: int = 1_800_000_000_000

    @override
    def now_ms(self) -> int:
        return self.now


def showing(*files: NativeFile) -> ModelRequest:
    """A request that names the files after a text; an image has its stub beside it."""
    content: list[Any] = [UserText(text="Look.")]
    for file in files:
        is_image = file.media_type.startswith("image/")
        kind = UserImage if is_image else UserDocument
        content.append(kind(media_type=file.media_type, source=file.source))
        content += [UserText(text="Attachment: beside it")] if is_image else []
    return replace(REQUEST, messages=(UserMessage(content=tuple(content)),), files=files)


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What the request shows of the user but for their own text, however it is divided."""
    said = [one["content"] for one in body.get("input") or body["messages"]]
    parts = [{"text": one} if isinstance(one, str) else one for one in said]
    flat = [part for one in parts for part in (one if isinstance(one, list) else [one])]
    return [part for part in flat if part.get("text") != "Look."]


IMAGE_PART: dict[str, dict[str, Any]] = {
    OPENAI: {"type": "input_image", "file_id": "file-1", "detail": "auto"},
    CLAUDE: {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
}


@STORING
async def test_c99_a_file_is_uploaded_once_within_the_hour_and_let_go_of_at_the_end(
    model: str,
) -> None:
    bytes_ = Bytes()
    answers = (UPLOADED[model], SAID[model], SAID[model], GONE)
    async with asking(model, *answers) as (provider, server):
        for _ in range(2):
            assert (await reply(provider, showing(native(bytes_.read)))).error is None
    upload, first, second, deleted = server.asked
    assert upload.path.split("?")[0] == "/v1/files"
    assert BYTES in upload.raw
    assert b'filename="plan.pdf"' in upload.raw
    assert b"application/pdf" in upload.raw
    assert upload.headers["content-type"].startswith("multipart/form-data")
    assert parts_of(first.body) == parts_of(second.body) == [FILE_PART[model]]
    assert (deleted.method, deleted.path.split("?")[0]) == ("DELETE", "/v1/files/file-1")
    assert bytes_.reads == 1


@STORING
async def test_c99_an_image_is_shown_by_its_id_beside_its_stub(model: str) -> None:
    file = native(Bytes().read, "image/png")
    async with asking(model, UPLOADED[model], SAID[model], GONE) as (provider, server):
        assert (await reply(provider, showing(file))).error is None
    image, stub = parts_of(server.asked[1].body)
    assert image == IMAGE_PART[model]
    assert stub["text"] == "Attachment: beside it"


async def test_the_vendor_is_told_to_let_go_by_itself() -> None:
    """This process may die, or never be asked again."""
    for model, member in ((OPENAI, b"expires_after[seconds]"), (CLAUDE, b"expires_in_seconds")):
        answers = (UPLOADED[model], SAID[model], GONE)
        async with asking(model, *answers) as (provider, server):
            await reply(provider, showing(native(Bytes().read)))
        upload = server.asked[0]
        assert member in upload.raw or member.decode() in upload.path
        assert b"7200" in upload.raw or "7200" in upload.path


@STORING
async def test_c99_after_an_hour_it_is_let_go_of_and_uploaded_again(model: str) -> None:
    clock, bytes_ = PassingClock(), Bytes()
    answers = (UPLOADED[model], SAID[model], GONE, UPLOADED[model], SAID[model], GONE)
    async with asking(model, *answers, clock=clock) as (provider, server):
        await reply(provider, showing(native(bytes_.read)))
        clock.now += 3_600_000
        await reply(provider, showing(native(bytes_.read)))
    methods = [request.method for request in server.asked]
    assert methods == ["POST", "POST", "DELETE", "POST", "POST", "DELETE"]


@STORING
async def test_nobody_shares_an_upload_with_another_session(model: str) -> None:
    bytes_ = Bytes()
    strangers = [replace(ALICE, user="bob"), replace(ALICE, session="conv_2")]
    files = [native(bytes_.read, identity=one) for one in (ALICE, *strangers)]
    answers = [one for _ in files for one in (UPLOADED[model], SAID[model])]
    async with asking(model, *answers, GONE, GONE, GONE) as (provider, _):
        for file in files:
            assert (await reply(provider, showing(file))).error is None
    assert bytes_.reads == 3


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (CHAT, chat(chat_piece({"content": "Hello"}), chat_piece({}, finish="stop"))),
        (GEMINI, None),
    ],
)
async def test_c99_a_provider_without_file_support_is_shown_the_stub_with_a_warning(
    model: str, answer: Answer | None
) -> None:
    bytes_ = Bytes()
    with capture_logs() as told:
        answers = () if answer is None else (answer,)
        async with asking(model, *answers) as (provider, server):
            if answer is not None:
                replied = await reply(provider, showing(native(bytes_.read)))
                assert replied.text == "Hello"
                assert "Attachment: the stub" in json.dumps(server.asked[0].body)
            else:
                assert await NativeFiles(NotedClock()).placed([native(bytes_.read)], None) == {
                    "artifact:art_1": None
                }
    assert [(line["event"], line["reason"], line["log_level"]) for line in told] == [
        ("inputs.native_refused", "unsupported", "warning")
    ]
    assert bytes_.reads == 0


@STORING
@pytest.mark.parametrize(
    ("media_type", "refusal"),
    [
        ("audio/mpeg", None),
        ("application/x-odd", None),
        ("application/pdf", refused(404, {"error": {"message": "no such path"}})),
        ("application/pdf", refused(400, {"error": {"message": "Unsupported file type"}})),
    ],
)
async def test_c99_what_its_storage_does_not_take_is_shown_as_its_stub(
    model: str, media_type: str, refusal: Answer | None
) -> None:
    said = SAID[model] if model == CLAUDE else chat(chat_piece({"content": "Hello"}))
    answers = (said,) if refusal is None else (refusal, said)
    with capture_logs() as told:
        async with asking(model, *answers) as (provider, server):
            await reply(provider, showing(native(Bytes().read, media_type)))
    assert "Attachment: the stub" in json.dumps(server.asked[-1].body)
    assert [line["reason"] for line in told] == ["unsupported"]


@STORING
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (refused(401, {"error": {"message": "sk-very-private"}}), FailureKind.AUTH),
        (refused(429, {"error": {"message": "slow down"}}), FailureKind.RATE_LIMIT),
        (refused(500, {"error": {"message": "oh"}}), FailureKind.UNAVAILABLE),
        (refused(400, {"error": {"message": "too large"}}), FailureKind.BAD_REQUEST),
        (Answer([b"{"], ending="cut"), FailureKind.UNAVAILABLE),
    ],
)
async def test_c99_another_error_of_an_upload_fails_that_model_call_and_is_tried_again(
    model: str, refusal: Answer, kind: FailureKind
) -> None:
    answers = (refusal, UPLOADED[model], SAID[model], GONE)
    async with asking(model, *answers) as (provider, server):
        failed = await reply(provider, showing(native(Bytes().read)))
        assert failed.error is not None
        assert failed.error.kind is kind
        assert "private" not in failed.error.message
        assert len(server.asked) == 1
        assert (await reply(provider, showing(native(Bytes().read)))).error is None


@pytest.mark.parametrize("bytes_", [Bytes(None), Bytes(b""), Bytes(error=OSError("gone"))])
async def test_a_file_whose_bytes_are_gone_is_shown_as_its_stub(bytes_: Bytes) -> None:
    with capture_logs() as told:
        async with asking(CLAUDE, SAID[CLAUDE]) as (provider, server):
            assert (await reply(provider, showing(native(bytes_.read)))).error is None
    assert parts_of(server.asked[0].body) == [{"type": "text", "text": "Attachment: the stub"}]
    assert [line["reason"] for line in told] == ["bytes_unavailable"]


@STORING
async def test_a_file_that_the_vendor_does_not_know_any_more_is_uploaded_again(
    model: str,
) -> None:
    gone, bytes_ = refused(404, {"error": {"message": "no such file"}}), Bytes()
    refusal = refused(400, {"error": {"message": "file-1 not found"}})
    first, second = (UPLOADED[model], refusal, gone), (UPLOADED[model], SAID[model], gone)
    with capture_logs() as told:
        async with asking(model, *first, *second) as (provider, server):
            failed = await reply(provider, showing(native(bytes_.read)))
            assert failed.error is not None
            assert failed.error.kind is FailureKind.BAD_REQUEST
            assert (await reply(provider, showing(native(bytes_.read)))).error is None
    methods = [request.method for request in server.asked]
    assert methods == ["POST", "POST", "DELETE"] * 2
    assert (bytes_.reads, told) == (2, [])
