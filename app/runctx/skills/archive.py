"""A zip of Agent Skills folders, opened in memory and believed in nothing (run-context.md 6).

Nothing is ever written to a disk or run. One entry that is wrong refuses the whole import, so that
nobody has half of a pack.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Final

from app.runctx.skills.folder import FolderDefect, skill_of

if TYPE_CHECKING:
    from app.runctx.skill import NewSkill

MAX_FILES: Final = 200
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_TOTAL_BYTES: Final = 16 * 1024 * 1024
MAX_NAME_CHARS: Final = 255
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED: Final = 0x1
# What the archiver of one system puts beside every file.
_IGNORED: Final = "__MACOSX"


def skills_in(archive: bytes) -> list[NewSkill]:
    """The skills of a zip, in the order of their names. Raises FolderDefect naming the entry."""
    try:
        with zipfile.ZipFile(BytesIO(archive)) as opened:
            folders = _folders(opened)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, OSError, EOFError) as error:
        if isinstance(error, FolderDefect):
            raise
        raise FolderDefect("", "is no zip archive") from None
    if not folders:
        raise FolderDefect("", "holds no folder of a skill")
    return [skill_of(folder, files) for folder, files in sorted(folders.items())]


def is_sound_path(name: str) -> bool:
    """Whether the name is a plain relative path that leaves no folder."""
    parts = name.split("/")
    return (
        name.isprintable()
        and len(name) <= MAX_NAME_CHARS
        and "\\" not in name
        and ":" not in parts[0]
        and not any(part in {"", ".", ".."} for part in parts)
    )


def _folders(archive: zipfile.ZipFile) -> dict[str, dict[str, bytes]]:
    """The contents by folder and path. Everything is checked before anything is unpacked."""
    entries = [entry for entry in archive.infolist() if _is_wanted(entry)]
    if len(entries) > MAX_FILES:
        raise FolderDefect(entries[MAX_FILES].filename, f"is beyond {MAX_FILES} files")
    if sum(entry.file_size for entry in entries) > MAX_TOTAL_BYTES:
        raise FolderDefect("", f"holds more than {MAX_TOTAL_BYTES} bytes")
    folders: dict[str, dict[str, bytes]] = {}
    for entry in entries:
        folder, _, path = entry.filename.partition("/")
        if path in folders.setdefault(folder, {}):
            raise FolderDefect(entry.filename, "is there twice")
        folders[folder][path] = _content(archive, entry)
    return folders


def _is_wanted(entry: zipfile.ZipInfo) -> bool:
    """Whether the entry is a file of a skill. Raises FolderDefect for one that may not be there."""
    # zipfile cuts a name at its NUL, so what was really written is looked at.
    name = entry.orig_filename
    parts = name.removesuffix("/").split("/")
    if not is_sound_path(name.removesuffix("/")):
        raise FolderDefect(name[:MAX_NAME_CHARS], "is no name of a file within a folder")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise FolderDefect(name, "is a link, or no file at all")
    if parts[0] == _IGNORED or entry.is_dir():
        return False
    if len(parts) == 1:
        raise FolderDefect(name, "lies in no folder")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
        raise FolderDefect(name, "is encrypted, or packed in a way that is not taken")
    if entry.file_size > MAX_FILE_BYTES:
        raise FolderDefect(name, f"has more than {MAX_FILE_BYTES} bytes")
    return True


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes, never more than the directory of the archive says there are."""
    try:
        with archive.open(entry) as packed:
            content = packed.read(MAX_FILE_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError):
        raise FolderDefect(entry.filename, "cannot be unpacked") from None
    if len(content) != entry.file_size:
        raise FolderDefect(entry.filename, "has another length than it says")
    return content
