"""Answers that begin and cannot be ended: what the log says of them, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.store.artifacts.leftovers import Leftovers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = bytes(range(256)) * (8 * 1024)


async def uploaded(alice: Person) -> str:
    """The id of a file that is sent in two pieces."""
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    ident: str = (await alice.post(path, LARGE, Content_Type="a/b")).json()["id"]
    return ident


async def download(
    alice: Person, ident: str, meanwhile: Callable[[], Awaitable[object]]
) -> list[dict[str, Any]]:
    """What is sent of a file of which the first piece comes before `meanwhile`."""
    sent: list[dict[str, Any]] = []
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 2:
            await meanwhile()

    scope = {
        "type": "http",
        "asgi": {"spec_version": "2.4"},
        "method": "GET",
        "path": f"/v1/artifacts/{ident}/content",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {alice.token}".encode())],
    }
    await alice.world.app(scope, receive, send)
    return sent


async def test_a_download_whose_file_is_deleted_breaks_off_and_is_no_failure(
    world: ApiWorld,
) -> None:
    alice = world.person()
    ident = await uploaded(alice)

    async def delete() -> None:
        assert (await alice.delete(f"/v1/artifacts/{ident}")).status_code == 204
        await Leftovers(world.store.everyone).sweep()

    with capture_logs() as told:
        sent = await download(alice, ident, delete)
    assert [message["more_body"] for message in sent[1:]] == [True]
    (line,) = (line for line in told if line["event"].startswith("request."))
    assert (line["event"], line["log_level"]) == ("request.broken_off", "info")
    assert line["reason"] == "the artifact was deleted"


async def test_a_download_whose_file_is_altered_breaks_off_and_is_a_failure(
    world: ApiWorld,
) -> None:
    alice = world.person()
    ident = await uploaded(alice)

    async def alter() -> None:
        await world.store.everyone.pool.execute(
            "UPDATE artifact_pieces SET content = 'x' WHERE key = $1 AND position = 1", ident
        )

    with capture_logs() as told:
        sent = await download(alice, ident, alter)
    assert [message["more_body"] for message in sent[1:]] == [True]
    (line,) = (line for line in told if line["event"].startswith("request."))
    assert (line["event"], line["log_level"]) == ("request.failed", "error")
