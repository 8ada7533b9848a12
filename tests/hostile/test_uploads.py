"""Forms and archives of an attacker, over HTTP: refused as a problem, and not kept."""

from __future__ import annotations

import io
import stat
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api.world import problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.hostile.target import Target

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM: Final = "multipart/form-data; boundary=B"
FILE: Final = b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n'
SOUND: Final = b"---\nname: sound\ndescription: Does it.\n---\n# Do it\n"
MIB: Final = 1 << 20


def form(*parts: bytes, end: bytes = b"--B--\r\n") -> bytes:
    """A form of these parts, each with its headers."""
    return b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + end


def named(disposition: bytes) -> bytes:
    """A form of one file whose Content-Disposition is this."""
    return form(b"Content-Disposition: " + disposition + b"\r\n\r\ntext")


@dataclass(frozen=True)
class Case:
    """A body that claims to be a form."""

    body: bytes
    content_type: str = FORM


FORMS: Final = {
    "10,000 files": Case(form(*[FILE + b"\r\na"] * 10_000)),
    "10,000 fields": Case(form(*[b'Content-Disposition: form-data; name="a"\r\n\r\n'] * 10_000)),
    "parts of nothing": Case(b"--B\r\n" * 10_000),
    "no boundary": Case(form(FILE + b"\r\ntext"), "multipart/form-data"),
    "an empty boundary": Case(form(FILE + b"\r\ntext"), "multipart/form-data; boundary="),
    "another boundary": Case(form(FILE + b"\r\ntext"), "multipart/form-data; boundary=C"),
    "a boundary of 10,000": Case(b"", "multipart/form-data; boundary=" + "b" * 10_000),
    "no end": Case(form(FILE + b"\r\ntext", end=b"")),
    "an end within the headers": Case(b"--B\r\n" + FILE),
    "a part without headers": Case(form(b"\r\ntext")),
    "a header without a colon": Case(form(b"Content-Disposition\r\n\r\ntext")),
    "a header of 100,000": Case(form(FILE + b"X-A: " + b"a" * 100_000 + b"\r\n\r\ntext")),
    "10,000 headers": Case(form(FILE + b"X-A: a\r\n" * 10_000 + b"\r\ntext")),
    "a header with NUL": Case(form(FILE + b"X\0A: a\r\n\r\ntext")),
    "a name that leaves": Case(named(b'form-data; name="file"; filename="../../etc/passwd"')),
    "a name with a return": Case(named(b'form-data; name="file"; filename="a\rX-A: b"')),
    "a name with NUL": Case(named(b'form-data; name="file"; filename="a\0.txt"')),
    "a name of 100,000": Case(named(b'form-data; name="file"; filename="%s"' % (b"a" * 100_000))),
    "a name that is no UTF-8": Case(named(b'form-data; name="file"; filename="\xff/\xfe"')),
    "a name turned around": Case(named('form-data; name="f"; filename="a\u202egnp"'.encode())),
    "a form in a form": Case(form(b"Content-Type: " + FORM.encode() + b"\r\n\r\n" + form(FILE))),
    "a charset of rubbish": Case(form(FILE + b"\r\nx"), FORM + "; charset=\0"),
    "a field of NUL": Case(
        form(b'Content-Disposition: form-data; name="conversation_id"\r\n\r\n\0', FILE + b"\r\nx")
    ),
}


@pytest.mark.parametrize("case", FORMS.values(), ids=FORMS.keys())
async def test_a_hostile_form_is_refused_and_nothing_is_kept(target: Target, case: Case) -> None:
    listing = f"/v1/artifacts?conversation_id={target.known['conversation_id']}"
    before = (await target.attacker.get(listing)).json()
    answer = await target.attacker.post(listing, case.body, Content_Type=case.content_type)
    problem(answer, 422, "request.invalid")
    assert (await target.attacker.get(listing)).json() == before


async def test_of_a_name_with_a_drive_the_folder_is_not_kept(target: Target) -> None:
    path = f"/v1/artifacts?conversation_id={target.known['conversation_id']}"
    disposition = b'Content-Disposition: form-data; name="file"; filename="C:\\x\\y.txt"'
    body = form(disposition + b"\r\n\r\nof a drive")
    answer = await target.attacker.post(path, body, Content_Type=FORM)
    assert (answer.status_code, answer.json()["filename"]) == (201, "y.txt")


async def test_a_form_beyond_the_bound_is_given_up(target: Target) -> None:
    path = f"/v1/artifacts?conversation_id={target.known['conversation_id']}"
    body = form(FILE + b"\r\n" + bytes(26 * MIB))
    problem(await target.attacker.post(path, body, Content_Type=FORM), 413, "artifact.too_large")


@dataclass(frozen=True)
class Archive:
    """A zip with one sound skill in it, the entries of an attacker, and then changed bytes."""

    entries: list[tuple[str | zipfile.ZipInfo, bytes]]
    change: Callable[[bytes], bytes] = field(default=bytes)

    def packed(self) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("sound/SKILL.md", SOUND)
            for name, content in self.entries:
                archive.writestr(name, content)
        return self.change(out.getvalue())


def of_kind(kind: int) -> zipfile.ZipInfo:
    """An entry that is no file."""
    info = zipfile.ZipInfo("sound/entry")
    info.external_attr = (kind | 0o777) << 16
    return info


def saying(size: int) -> Callable[[bytes], bytes]:
    """Has every entry of the directory say another length than it has."""

    def changed(archive: bytes) -> bytes:
        head, mark, entries = archive.partition(b"PK\1\2")
        lied = [
            entry[:20] + size.to_bytes(4, "little") + entry[24:] for entry in entries.split(mark)
        ]
        return head + mark + mark.join(lied)

    return changed


ARCHIVES: Final = {
    "a ratio of a thousand": Archive([("sound/bomb", bytes(64 * MIB))]),
    "many that are large": Archive([(f"sound/{at}", bytes(MIB)) for at in range(40)]),
    "10,000 entries": Archive([(f"sound/{at}", b"") for at in range(9_999)]),
    "a path that leaves": Archive([("sound/../../../etc/cron.d/x", b"x")]),
    "an absolute path": Archive([("/etc/passwd", b"x")]),
    "a drive": Archive([("C:/Windows/x", b"x")]),
    "a share": Archive([("//host/share/x", b"x")]),
    "backslashes": Archive([("sound\\..\\..\\x", b"x")]),
    "a name with an escape": Archive([("sound/\x1b[2J", b"x")]),
    "a name turned around": Archive([("sound/a\u202egnp", b"x")]),
    "a symbolic link": Archive([(of_kind(stat.S_IFLNK), b"/etc/passwd")]),
    "a device": Archive([(of_kind(stat.S_IFBLK), b"")]),
    "a pipe": Archive([(of_kind(stat.S_IFIFO), b"")]),
    "a socket": Archive([(of_kind(stat.S_IFSOCK), b"")]),
    "less than there is": Archive([], saying(1)),
    "more than there is": Archive([], saying(MIB)),
    "4 GiB": Archive([], saying(2**32 - 1)),
    "a directory that is elsewhere": Archive([], lambda raw: raw[:-6] + b"\xff\xff\xff\x7f\0\0"),
    "a head cut off": Archive([], lambda raw: raw[40:]),
    "an end cut off": Archive([], lambda raw: raw[:-10]),
    "zeros within": Archive([], lambda raw: raw[:45] + bytes(20) + raw[65:]),
}


@pytest.mark.parametrize("case", ARCHIVES.values(), ids=ARCHIVES.keys())
async def test_a_hostile_archive_is_refused_and_nothing_is_kept(
    target: Target, case: Archive
) -> None:
    before = (await target.attacker.get("/v1/skills")).json()["items"]
    answer = await imported(target, case.packed())
    problem(answer, 422, "skill.import_invalid")
    assert (await target.attacker.get("/v1/skills")).json()["items"] == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_an_archive_with_two_files_of_one_name_is_refused(target: Target) -> None:
    twice = Archive([("sound/a", b"the one shown"), ("sound/a", b"the one kept")])
    problem(await imported(target, twice.packed()), 422, "skill.import_invalid")


async def imported(target: Target, archive: bytes) -> Any:
    """The answer to an import."""
    return await target.attacker.post("/v1/skills/import", archive, Content_Type="application/zip")


async def test_the_service_is_well_after_the_uploads(target: Target) -> None:
    assert await target.is_well()
