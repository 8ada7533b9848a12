"""The user's message of a run's first step: its text, and its attachments as parts.

Pure (run-context.md 4.5). What cannot go along as bytes is a text stub, whose JSON is the only
place for a file's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from app.runctx.disposition import PROVIDER_NATIVE, REF, is_image, tool_of
from app.runctx.mime import media_type
from app.runctx.text import block_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from app.runctx.ports import ToolCatalog
    from app.runctx.shapes import InputArtifactView

STUB_TITLE: Final = "Attachment available by reference:"
_PDF: Final = "application/pdf"
_BLOCK: Final = "attachment"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of the user, or the stub of an attachment."""

    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An attachment as a file; `is_native`: the provider is to get it by way of its own storage.

    Without bytes and without that flag there is nothing to send, and the stub beside it speaks.
    """

    kind: Literal["image", "audio", "file"]
    view: InputArtifactView
    is_native: bool = False
    document_type: str | None = None


Part = TextPart | MediaPart


def render_input(
    goal: str, views: Sequence[InputArtifactView] | None, catalog: ToolCatalog | None
) -> str | list[Part]:
    """The run's input with its attachments, in their order; plain text where there are none."""
    if not views:
        return goal
    return [*([TextPart(goal)] if goal else []), *parts_of(views, catalog)]


def parts_of(views: Sequence[InputArtifactView], catalog: ToolCatalog | None) -> list[Part]:
    """The attachments alone, as parts. Raises PromptBlockUnserializable."""
    return [part for view in views for part in _parts(view, catalog)]


def text_stub(view: InputArtifactView, catalog: ToolCatalog | None) -> str:
    """The reference that stands for a file. Raises PromptBlockUnserializable."""
    told: dict[str, JsonValue] = {
        "artifact_ref": view.id,
        "mime": view.mime,
        "size_bytes": view.size_bytes,
    }
    if view.filename:
        told["filename"] = view.filename
    if view.sha256:
        told["hash"] = view.sha256
    if (tool := _fetching_tool(view, catalog)) is not None:
        told["fetch"] = {"tool": tool, "id": view.id}
    return f"{STUB_TITLE}\n{block_json(_BLOCK, told)}"


def _fetching_tool(view: InputArtifactView, catalog: ToolCatalog | None) -> str | None:
    """The tool that the disposition names, else the first that says it reads such files."""
    if (named := tool_of(view.disposition)) is not None:
        return named
    return None if catalog is None else catalog.reader_of(media_type(view.mime))


def _parts(view: InputArtifactView, catalog: ToolCatalog | None) -> Iterator[Part]:
    kind = media_type(view.mime)
    is_native = view.disposition == PROVIDER_NATIVE
    stub = TextPart(text_stub(view, catalog))
    if is_native:
        yield _native(view, kind)
        if is_image(kind):
            yield stub
    elif tool_of(view.disposition) is not None:
        yield stub
    elif is_image(kind):
        is_sent = view.content is not None and view.disposition != REF
        yield MediaPart("image", view) if is_sent else stub
    else:
        if kind == _PDF:
            yield MediaPart("file", view)
        elif kind.startswith("audio/"):
            yield MediaPart("audio", view)
        yield stub


def _native(view: InputArtifactView, kind: str) -> MediaPart:
    if is_image(kind):
        return MediaPart("image", view, is_native=True)
    if kind.startswith("audio/"):
        return MediaPart("audio", view, is_native=True)
    family, _, subtype = kind.partition("/")
    document_type = subtype if family in {"application", "text"} else None
    return MediaPart("file", view, is_native=True, document_type=document_type)
