"""Entity tags (RFC 9110 8.8.3): what a client has or expects, and a document it has already.

All tags of the service are strong. A proxy that compresses weakens one, so weak ones are taken too.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Header, Response

ANY: Final = "*"
_TAG: Final = re.compile(r'[ \t]*(?:W/)?"([^"]*)"[ \t]*')

IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of what the client has, which is not sent again, or *")
]
# What the description says of a route that takes If-None-Match.
UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "The client has it already"}
}


def tag_of(digest: str) -> str:
    """The tag of what has this digest."""
    return f'"{digest}"'


def digests(header: str) -> frozenset[str]:
    """What the tags of a list stand for; what is no tag is passed over."""
    tags = (_TAG.fullmatch(part) for part in header.split(","))
    return frozenset(tag[1] for tag in tags if tag is not None)


def not_modified(if_none_match: str | None, digest: str) -> Response | None:
    """A 304 where If-None-Match names what is there (RFC 9110 13.1.2), which needs no reading."""
    if if_none_match is None:
        return None
    if if_none_match.strip() != ANY and digest not in digests(if_none_match):
        return None
    return Response(status_code=304, headers={"ETag": tag_of(digest)})
