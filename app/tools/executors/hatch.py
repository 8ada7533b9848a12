"""The escape hatch's side of the tools: what is offered while it is on, and how the rest is found.

An agent that names whole servers may have hundreds of tools, and every model call would carry all
of their specs. With the hatch on, a turn offers those that the agent names one by one, and of its
servers' tools as many as fit; a call to any other leads to a search among exactly those (turn.md
7.3). What an agent does not have is not searched, so the hatch widens no scope.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from app.engine.json.text import compact_json
from app.log.queries import ToolQuery, ToolText
from app.tools.executors.forwarding import ForwardingExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.tools.ports import ToolSearch
    from app.turn.ports import ToolExecutor, ToolSpec

# What is offered of whole servers, until either is reached: about 8,000 tokens in each request.
OFFERED_TOOLS: Final = 40
OFFERED_BYTES: Final = 32 * 1024

RECOVERED_TOOLS: Final = 5
QUERY_WORDS: Final = 64
_WORD_CHARS: Final = 64
_TEXT_CHARS: Final = 4096

_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class HatchedExecutor(ForwardingExecutor):
    """`inner` with fewer tools on offer, and a way to the others. `named` are always offered.

    A worker has no hatch: it is offered all of its share.
    """

    def __init__(self, inner: ToolExecutor, named: Sequence[str], *, search: ToolSearch) -> None:
        super().__init__(inner)
        self._named = frozenset(named)
        self._search = search

    @override
    def specs(self) -> Sequence[ToolSpec]:
        """The tools on offer, in the order in which the agent names them."""
        return offered(self._inner.specs(), self._named)

    @override
    async def recover_unadvertised(self, name: str, args: Mapping[str, Any]) -> Sequence[ToolSpec]:
        """Of the tools that are not on offer those nearest to the call. Raises StoreUnavailable.

        The very tool that was called, if there is one, is the nearest.
        """
        all_specs = self._inner.specs()
        shown = {spec.name for spec in offered(all_specs, self._named)}
        hidden = [spec for spec in all_specs if spec.name not in shown]
        query = query_of(name, args)
        if not hidden or not (query.named or query.given):
            return ()
        texts = [_text_of(spec) for spec in hidden]
        places = await self._search.nearest(query, texts, limit=RECOVERED_TOOLS)
        found = [spec for spec in hidden if spec.name == name]
        found += [hidden[place] for place in places if hidden[place].name != name]
        return found[:RECOVERED_TOOLS]


def offered(specs: Sequence[ToolSpec], named: frozenset[str]) -> list[ToolSpec]:
    """The named ones, and of the others, in order, as many as fit beside them."""
    chosen = [spec for spec in specs if spec.name in named]
    count, size = len(chosen), sum(map(_size, chosen))
    shown = set(named)
    for spec in specs:
        if spec.name in named:
            continue
        count, size = count + 1, size + _size(spec)
        if count > OFFERED_TOOLS or size > OFFERED_BYTES:
            break
        shown.add(spec.name)
    return [spec for spec in specs if spec.name in shown]


def query_of(name: str, args: Mapping[str, Any]) -> ToolQuery:
    """The call as words: those of its name, then those of its arguments, each at most once."""
    named = dict.fromkeys(_words_of(name))
    given = dict.fromkeys(word for text in _texts(args) for word in _words_of(text))
    rest = [word for word in given if word not in named]
    return ToolQuery(tuple(named)[:QUERY_WORDS], tuple(rest[:QUERY_WORDS]))


def _words_of(text: str) -> list[str]:
    """The words in lower case: letters and digits, parted also where a capital begins a word."""
    parted = _CAMEL.sub(" ", text[:_TEXT_CHARS])
    return [word[:_WORD_CHARS].lower() for word in _WORD.findall(parted)]


def _texts(value: object) -> Iterator[str]:
    """The keys and texts within JSON, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)


def _text_of(spec: ToolSpec) -> ToolText:
    parameters = spec.parameters.get("properties")
    names = " ".join(parameters) if isinstance(parameters, dict) else ""
    return ToolText(
        called=" ".join(_words_of(spec.name)),
        takes=" ".join(_words_of(names)),
        about=f"{spec.title} {spec.description}"[:_TEXT_CHARS],
    )


def _size(spec: ToolSpec) -> int:
    return len((spec.name + spec.description + compact_json(spec.parameters)).encode())
