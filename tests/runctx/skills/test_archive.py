"""Zips of strangers (run-context.md 6): hostile ones are refused before anything is kept."""

from __future__ import annotations

import io
import stat
import zipfile
from dataclasses import dataclass

import pytest

from app.runctx.skills.archive import MAX_FILE_BYTES, skills_in
from app.runctx.skills.folder import FolderDefect

SKILL = "---\nname: {}\ndescription: Does it.\n---\n# Do it\n"


def zipped(
    entries: dict[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """A zip of one sound skill, `ok`, and these entries."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("ok/SKILL.md", SKILL.format("ok"))
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


def special(name: str, kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


def test_each_folder_is_a_skill_in_the_order_of_names() -> None:
    found = skills_in(
        zipped(
            {
                "b/SKILL.md": SKILL.format("b").encode(),
                "b/x/y.txt": b"y",
                "c/": b"",
                "__MACOSX/._ok": b"",
            }
        )
    )
    assert [skill.head.name for skill in found] == ["b", "ok"]
    assert found[0].files == {"x/y.txt": b"y"}


@dataclass(frozen=True)
class Case:
    id: str
    entries: dict[str | zipfile.ZipInfo, bytes]
    named: str


HOSTILE = [
    Case("parent", {"ok/../../etc/passwd": b"x"}, "ok/../../etc/passwd"),
    Case("absolute", {"/etc/passwd": b"x"}, "/etc/passwd"),
    Case("drive", {"C:/x": b"x"}, "C:/x"),
    Case("backslash", {"ok\\..\\x": b"x"}, "ok\\..\\x"),
    Case("control", {"ok/a\nb": b"x"}, "ok/a\nb"),
    Case("empty part", {"ok//b": b"x"}, "ok//b"),
    Case("dot", {"ok/./b": b"x"}, "ok/./b"),
    Case("long", {"ok/" + "x" * 300: b"x"}, "ok/" + "x" * 252),
    Case("symlink", {special("ok/link", stat.S_IFLNK): b"/etc/passwd"}, "ok/link"),
    Case("device", {special("ok/device", stat.S_IFCHR): b""}, "ok/device"),
    Case("linked folder", {special("dir", stat.S_IFLNK): b"/"}, "dir"),
    Case("no folder", {"README.md": b"x"}, "README.md"),
    Case("no skill", {"other/x.txt": b"x"}, "other"),
    Case("large", {"ok/large": bytes(MAX_FILE_BYTES + 1)}, "ok/large"),
    Case("large skill", {"b/SKILL.md": bytes(MAX_FILE_BYTES + 1)}, "b/SKILL.md"),
    Case("many", {f"ok/{n}": b"" for n in range(200)}, "ok/199"),
    Case("bomb", {f"ok/{n}": bytes(MAX_FILE_BYTES) for n in range(17)}, ""),
    Case("another name", {"b/SKILL.md": SKILL.format("c").encode()}, "b/SKILL.md"),
    Case("double hyphen", {"a--b/SKILL.md": SKILL.format("a--b").encode()}, "a--b/SKILL.md"),
]


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.id)
def test_one_bad_entry_refuses_the_whole_import_by_name(case: Case) -> None:
    """C140."""
    with pytest.raises(FolderDefect) as caught:
        skills_in(zipped(case.entries))
    assert caught.value.entry == case.named


def test_200_files_are_taken() -> None:
    [found] = skills_in(zipped({f"ok/{n}": b"" for n in range(199)}))
    assert len(found.files) == 199


def test_ten_thousand_entries_are_refused() -> None:
    with pytest.raises(FolderDefect, match="beyond 200 files"):
        skills_in(zipped({f"ok/{n}": b"" for n in range(10_000)}))


def test_a_name_with_nul_is_refused() -> None:
    raw = zipped({"ok/aXb": b"x"}).replace(b"ok/aXb", b"ok/a\0b")
    with pytest.raises(FolderDefect, match="no name of a file"):
        skills_in(raw)


def test_a_file_that_is_there_twice_is_refused() -> None:
    raw = zipped({"ok/SKILL.mX": b"x"}).replace(b"ok/SKILL.mX", b"ok/SKILL.md")
    with pytest.raises(FolderDefect, match="is there twice"):
        skills_in(raw)


def test_a_length_that_lies_is_refused() -> None:
    raw = zipped({"ok/long.txt": b"x" * 1000}, zipfile.ZIP_STORED)
    lying = raw.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(FolderDefect):
        skills_in(lying)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_pack_are_refused(method: int) -> None:
    with pytest.raises(FolderDefect, match="packed in a way"):
        skills_in(zipped({}, method))


def test_an_encrypted_entry_is_refused() -> None:
    raw = bytearray(zipped({}, zipfile.ZIP_STORED))
    directory = raw.index(b"PK\x01\x02")
    raw[directory + 8] |= 1
    with pytest.raises(FolderDefect, match="encrypted"):
        skills_in(bytes(raw))


@pytest.mark.parametrize("cut", [0, 10, 60])
def test_what_is_no_zip_is_refused(cut: int) -> None:
    with pytest.raises(FolderDefect, match="no zip archive"):
        skills_in(zipped({})[:cut])


def test_an_empty_zip_is_refused() -> None:
    out = io.BytesIO()
    zipfile.ZipFile(out, "w").close()
    with pytest.raises(FolderDefect, match="no folder of a skill"):
        skills_in(out.getvalue())


def test_damage_in_packed_bytes_is_refused() -> None:
    raw = bytearray(zipped({"ok/x": bytes(range(256)) * 20}))
    at = raw.index(b"ok/x") + 10
    raw[at : at + 8] = b"\xff" * 8
    with pytest.raises(FolderDefect, match="cannot be unpacked"):
        skills_in(bytes(raw))
