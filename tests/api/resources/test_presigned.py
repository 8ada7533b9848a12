"""URLs of the bucket for the bytes of artifacts, and what else a bucket changes at the edge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from app.store.artifacts.leftovers import Leftovers
from app.store.open import Store, open_bucket
from tests.support.api.world import ApiWorld, api_world, problem
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.api.world import Person
    from tests.support.loopback.buckets import S3

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def kept_apart(bucketed: ApiWorld, tenant: str) -> ApiWorld:
    """The application whose bytes lie in a bucket."""
    return replace(bucketed, tenant=tenant)


@pytest_asyncio.fixture(loop_scope="session")
async def away(dsn: str, s3: S3, tenant: str) -> AsyncIterator[ApiWorld]:
    """An application whose bucket nobody answers for."""
    bucket = open_bucket(s3.place(endpoint="http://127.0.0.1:1"))
    async with (
        Store.open(dsn, seal=SEAL, process="edge-bucket-away", bucket=bucket) as store,
        api_world(store) as opened,
    ):
        yield replace(opened, tenant=tenant)


async def uploaded(person: Person, **more: str) -> dict[str, Any]:
    talk = (await person.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    answer = await person.post(path, b"a,b", **({"Content_Type": "text/csv"} | more))
    assert answer.status_code == 201, answer.text
    artifact: dict[str, Any] = answer.json()
    return artifact


async def test_a_url_reads_the_bytes_without_a_token_for_five_minutes(
    kept_apart: ApiWorld,
) -> None:
    alice = kept_apart.person()
    path = f"/v1/artifacts/{(await uploaded(alice))['id']}"
    answer = await alice.get(f"{path}/presigned")
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"url", "expires_at"}
    until = kept_apart.clock.now() + timedelta(minutes=5)
    assert answer.json()["expires_at"] == until.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    async with httpx.AsyncClient(trust_env=False) as client:
        read = await client.get(answer.json()["url"])
    assert (read.status_code, read.content) == (200, b"a,b")
    assert read.headers["content-disposition"] == "attachment"


async def test_without_a_bucket_there_is_no_url(world: ApiWorld) -> None:
    alice = world.person()
    path = f"/v1/artifacts/{(await uploaded(alice))['id']}/presigned"
    problem(await alice.get(path), 501, "artifact.presign_unsupported")


async def test_a_url_is_for_whoever_reads_the_conversation(kept_apart: ApiWorld) -> None:
    alice, mallory = kept_apart.person(), kept_apart.person("mallory")
    path = f"/v1/artifacts/{(await uploaded(alice))['id']}/presigned"
    problem(await mallory.get(path), 404, "not_found")
    problem(await alice.get("/v1/artifacts/art_none/presigned"), 404, "not_found")


async def test_what_comes_in_before_a_first_answer_is_repeated_is_let_go(
    kept_apart: ApiWorld, s3: S3
) -> None:
    alice = kept_apart.person()
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    more = {"Content_Type": "text/csv", "Idempotency_Key": "once"}
    first = await alice.post(path, b"a,b", **more)
    again = await alice.post(path, b"a,b", **more)
    assert (first.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert first.json() == again.json()
    assert await noted(kept_apart) == 1
    await Leftovers(kept_apart.store.everyone, s3.bucket().bucket).sweep()
    assert await noted(kept_apart) == 0
    download = await alice.get(f"/v1/artifacts/{first.json()['id']}/content")
    assert download.content == b"a,b"


async def test_what_is_refused_does_not_stay_in_the_bucket(kept_apart: ApiWorld, s3: S3) -> None:
    alice = kept_apart.person()
    for path in ("/v1/artifacts?conversation_id=conv_none", "/v1/artifacts"):
        answer = await alice.post(path, b"a,b", Content_Type="text/csv")
        assert answer.status_code in {404, 422}
    await Leftovers(kept_apart.store.everyone, s3.bucket().bucket).sweep()
    assert await noted(kept_apart) == 0


async def test_while_the_bucket_is_away_an_upload_is_503_and_may_be_sent_again(
    away: ApiWorld,
) -> None:
    alice = away.person()
    talk = (await alice.post("/v1/conversations", {})).json()["id"]
    path = f"/v1/artifacts?conversation_id={talk}"
    answer = await alice.post(path, b"a,b", Content_Type="text/csv", Idempotency_Key="once")
    problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "2"
    listed = await alice.get(path)
    assert listed.json()["items"] == []


async def noted(world: ApiWorld) -> int:
    """How many objects of the tenant no artifact has taken."""
    number: int = await world.store.everyone.pool.fetchval(
        "SELECT count(*) FROM artifact_leftovers WHERE tenant = $1", world.tenant
    )
    return number
