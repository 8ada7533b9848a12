"""The code of the documents, as a reader would paste it: block after block, into one program."""

from __future__ import annotations

import re
from typing import Any

from tests.architecture.sources import ROOT

_BLOCK = re.compile(
    r"<!-- sample: (?P<name>[a-z-]+) -->\n```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL
)


def samples(document: str, language: str) -> dict[str, str]:
    """The marked blocks of a document by their names, in their order."""
    found = _BLOCK.finditer((ROOT / document).read_text())
    return {each["name"]: each["code"] for each in found if each["language"] == language}


def program(document: str) -> dict[str, Any]:
    """The names that the Python samples of a document define, run one after the other."""
    names: dict[str, Any] = {}
    for name, code in samples(document, "python").items():
        exec(compile(code, f"{document}: {name}", "exec"), names)  # noqa: S102 - our own documents
    return names
