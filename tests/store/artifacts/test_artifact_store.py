"""The contract of an artifact store, held by both drivers (run-context.md 7): C142 to C146.

What every driver does is in `TestContract`; the rest is about rows, however the bytes are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.errors import ArtifactCorrupt, IdentityRequired
from app.ids import Identity
from app.log.queries import Page
from app.policy.taint import Trust
from app.runctx.shapes import NewArtifact
from app.store.artifacts.artifact_store import StoreArtifacts

if TYPE_CHECKING:
    from app.runctx.ports import ArtifactStore
    from app.store.open import Store
    from tests.support.loopback.buckets import S3, BucketWorld

pytestmark = pytest.mark.postgres

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
BYTES = bytes(range(256)) * 4


@pytest.fixture
def scope(tenant: str) -> Identity:
    return Identity(tenant, "alice", f"conv-{tenant}", "run_1")


@pytest.fixture(params=["postgres", "s3"])
def bucket(request: pytest.FixtureRequest) -> BucketWorld | None:
    s3: S3 | None = request.getfixturevalue("s3") if request.param == "s3" else None
    return None if s3 is None else s3.bucket()


@pytest.fixture
def artifacts(store: Store, bucket: BucketWorld | None) -> StoreArtifacts:
    return StoreArtifacts(store.pool, None if bucket is None else bucket.bucket)


def new(scope: Identity, number: int = 1, /, **changes: Any) -> NewArtifact:
    plain = NewArtifact(
        id=f"art_{scope.tenant}_{number}",
        namespace="uploads",
        content=BYTES,
        mime="image/png; x=Ä",
        trust=Trust.UNSPECIFIED,
        at=NOON,
        by="alice",
        filename="café\0.png",
    )
    return replace(plain, **changes)


class TestContract:
    """What every driver does."""

    async def test_what_is_kept_is_read_back(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        kept, is_new = await artifacts.put(scope, new(scope, tool="read"))
        assert is_new
        assert kept == await artifacts.get_ref(scope, kept.id)
        assert (kept.sha256, kept.size_bytes) == (hashlib.sha256(BYTES).hexdigest(), 1024)
        assert (kept.mime, kept.filename) == ("image/png; x=Ä", "café\0.png")
        assert (kept.identity, kept.tool, kept.by) == (scope, "read", "alice")
        assert await artifacts.get(scope, kept.id) == BYTES
        assert await artifacts.exists(scope, kept.id)

    async def test_c142_the_same_bytes_in_one_scope_are_one_artifact(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        first, _ = await artifacts.put(scope, new(scope))
        worse = new(scope, 2, mime="text/html", filename="b", trust=Trust.QUARANTINED_CONTENT)
        again, is_new = await artifacts.put(scope, worse)
        assert not is_new
        assert again == replace(first, trust=Trust.QUARANTINED_CONTENT)
        clean, _ = await artifacts.put(scope, new(scope, 3))
        assert clean.trust is Trust.QUARANTINED_CONTENT

    async def test_c142_the_same_bytes_elsewhere_are_another_artifact(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        first, _ = await artifacts.put(scope, new(scope))
        elsewhere = replace(scope, session="conv_other")
        other, is_new = await artifacts.put(elsewhere, new(scope, 2))
        assert is_new
        assert other.id != first.id
        result, is_new = await artifacts.put(scope, new(scope, 3, namespace="results"))
        assert (is_new, result.id == first.id) == (True, False)

    async def test_c144_the_run_is_provenance_and_no_part_of_the_scope(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        kept, _ = await artifacts.put(scope, new(scope))
        assert await artifacts.get(replace(scope, run="run_2"), kept.id) == BYTES

    @pytest.mark.parametrize("member", ["tenant", "user", "session"])
    async def test_c71_nothing_of_another_scope_is_found(
        self, artifacts: ArtifactStore, scope: Identity, member: str
    ) -> None:
        kept, _ = await artifacts.put(scope, new(scope))
        stranger = replace(scope, **{member: "other"})
        assert await artifacts.get_ref(stranger, kept.id) is None
        assert await artifacts.get(stranger, kept.id) is None
        assert await artifacts.list(stranger) == []
        await artifacts.delete(stranger, kept.id)
        assert await artifacts.exists(scope, kept.id)

    @pytest.mark.parametrize("member", ["tenant", "user", "session"])
    async def test_an_identity_that_is_not_whole_reaches_nothing(
        self, artifacts: ArtifactStore, scope: Identity, member: str
    ) -> None:
        blank = replace(scope, **{member: " "})
        with pytest.raises(IdentityRequired, match=member):
            await artifacts.put(blank, new(scope))
        with pytest.raises(IdentityRequired, match=member):
            await artifacts.get(blank, "art_1")

    @pytest.mark.parametrize("size", [0, 1, 25 * 1024 * 1024])
    async def test_a_file_of_any_size_comes_back_whole(
        self, artifacts: ArtifactStore, scope: Identity, size: int
    ) -> None:
        content = b"\xff" * size
        kept, _ = await artifacts.put(scope, new(scope, content=content))
        assert (kept.size_bytes, await artifacts.get(scope, kept.id)) == (size, content)

    async def test_c142_of_many_who_keep_the_same_bytes_at_once_one_is_first(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        kept = await asyncio.gather(*(artifacts.put(scope, new(scope, n)) for n in range(8)))
        assert sorted(is_new for _, is_new in kept) == [False] * 7 + [True]
        (ident,) = {ref.id for ref, _ in kept}
        assert await artifacts.get(scope, ident) == BYTES

    async def test_bytes_are_kept_again_after_they_were_deleted(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        first, _ = await artifacts.put(scope, new(scope))
        await artifacts.delete(scope, first.id)
        second, is_new = await artifacts.put(scope, new(scope, 2))
        assert (is_new, second.id == first.id) == (True, False)
        assert await artifacts.get(scope, second.id) == BYTES

    async def test_a_deleted_file_is_gone_and_may_be_deleted_again(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        kept, _ = await artifacts.put(scope, new(scope))
        for _ in range(2):
            await artifacts.delete(scope, kept.id)
        assert await artifacts.get(scope, kept.id) is None
        await artifacts.aclose()

    async def test_files_are_listed_newest_first_and_then_by_id(
        self, artifacts: ArtifactStore, scope: Identity
    ) -> None:
        for number, seconds in ((1, 0), (3, 5), (2, 5)):
            at = NOON + timedelta(seconds=seconds)
            await artifacts.put(scope, new(scope, number, content=b"%d" % number, at=at))
        listed = [ref.id.rpartition("_")[2] for ref in await artifacts.list(scope)]
        assert listed == ["2", "3", "1"]


@pytest.mark.parametrize("found", [b"x", bytes(1024), b""])
async def test_c145_bytes_that_have_changed_are_not_handed_out(
    store: Store,
    artifacts: StoreArtifacts,
    bucket: BucketWorld | None,
    scope: Identity,
    found: bytes,
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    if bucket is None:
        await store.everyone.pool.execute(
            "UPDATE artifacts SET content = $2 WHERE id = $1", kept.id, found
        )
    else:
        await bucket.bucket.put(kept.id, found, media_type="text/plain")
    with pytest.raises(ArtifactCorrupt):
        await artifacts.get(scope, kept.id)


async def test_a_file_is_found_by_its_id_within_its_tenant_alone(
    artifacts: StoreArtifacts, scope: Identity
) -> None:
    kept, _ = await artifacts.put(scope, new(scope))
    assert await artifacts.find(scope.tenant, kept.id) == kept
    assert await artifacts.find("other", kept.id) is None


async def test_a_conversation_s_files_come_in_pages(
    artifacts: StoreArtifacts, scope: Identity
) -> None:
    for number in (1, 2, 3):
        await artifacts.put(scope, new(scope, number, content=b"%d" % number))
    first = await artifacts.page(scope.tenant, scope.session, Page(2))
    rest = await artifacts.page(scope.tenant, scope.session, Page(2, before=first[-1].id))
    assert [ref.id.rpartition("_")[2] for ref in (*first, *rest)] == ["3", "2", "1"]
    assert await artifacts.page("other", scope.session, Page(2)) == []


async def test_large_files_are_kept_out_of_line_and_uncompressed(
    store: Store, scope: Identity
) -> None:
    artifacts = StoreArtifacts(store.pool)
    large = b"a" * (25 * 1024 * 1024)
    kept, _ = await artifacts.put(scope, new(scope, content=large))
    size = await store.everyone.pool.fetchval(
        "SELECT sum(pg_column_size(content)) FROM artifact_pieces WHERE key = $1", kept.id
    )
    assert size >= len(large)
    assert await artifacts.get(scope, kept.id) == large
