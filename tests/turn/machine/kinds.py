"""What a run may be: the scripts its model plays, and the consents from before it began."""

from __future__ import annotations

from typing import Final, TypeVar

from hypothesis import strategies as st

from app.turn.options import Identity
from tests.turn.machine.house import HIDDEN, TOOLS
from tests.turn.machine.script import (
    ASK,
    BAD_DELEGATIONS,
    BAD_QUESTIONS,
    CANONICAL,
    DELEGATE,
    DELEGATIONS,
    GOOD_QUESTIONS,
    HANDOFF,
    MALFORMED,
    Reply,
)
from tests.turn.machine.world import Kind

D = TypeVar("D")


def mostly(often: st.SearchStrategy[D], seldom: st.SearchStrategy[D]) -> st.SearchStrategy[D]:
    """Every eighth is of the second kind. (`one_of` takes what stands in it twice once.)"""
    return st.integers(0, 7).flatmap(lambda drawn: seldom if drawn == 7 else often)


# Ids and arguments repeat, some arguments are malformed, two tools are nobody's. What lets content
# in and what sends some out come more often, for without both no taint shows.
SOUND: Final = st.sampled_from([*CANONICAL])
TEXTS: Final = mostly(SOUND, st.sampled_from(MALFORMED))
NAMES: Final = st.sampled_from(
    [*TOOLS, *["inbox", "send", "post"] * 3, *["share", "stamp", "write"] * 2, "nope", HANDOFF]
)
PLAIN: Final = st.tuples(NAMES, TEXTS)
ASKING: Final = st.tuples(
    st.just(ASK), st.sampled_from([*GOOD_QUESTIONS * 4, *BAD_QUESTIONS, MALFORMED[0]])
)
DELEGATING: Final = st.tuples(
    st.just(DELEGATE), st.sampled_from([*DELEGATIONS * 6, *BAD_DELEGATIONS, MALFORMED[0]])
)
# The dial of a reply fails as often: after three retries the turn gives up.
FAILS: Final = st.sampled_from([0] * 12 + [1, 3, 4])

READS_MAIL: Final = Reply((("inbox", "{}"),))
SEARCHES: Final = tuple(Reply(((tool, "{}"),)) for tool in (*HIDDEN, *HIDDEN))


def replies(calls: st.SearchStrategy[tuple[str, str]], most: int) -> st.SearchStrategy[Reply]:
    """One reply with up to `most` calls; in every third one the last of them stands twice."""
    batch = st.lists(calls, min_size=1, max_size=most).map(tuple)
    is_twice = st.integers(0, 2).map(lambda drawn: drawn == 2)
    return st.builds(_reply, batch, is_twice, FAILS)


def _reply(calls: tuple[tuple[str, str], ...], is_twice: bool, fails: int) -> Reply:
    return Reply((*calls, *calls[-1:]) if is_twice else calls, fails)


def scripts(calls: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[Reply, ...]]:
    """What a model plays; in some runs it has read what strangers wrote before all else.

    In others it sends something off right after that, once or twice, or calls again and again what
    it was not offered, or says once more what it said first, so that a decision meets an equal
    call, or says one thing for ever.
    """
    played = st.lists(replies(calls, 4), min_size=1, max_size=4).map(tuple)
    after_mail = played.map(lambda script: (READS_MAIL, *script))
    again = played.map(lambda script: (*script, script[0]))
    insisting = replies(calls, 1).map(lambda reply: (reply,) * 6)
    sends = st.builds(
        lambda text, times: Reply((("send", text),) * times), SOUND, st.integers(1, 2)
    )
    lured = st.builds(lambda sent, script: (READS_MAIL, sent, *script), sends, played)
    searching = played.map(lambda script: (*SEARCHES, *script))
    kinds = (searching, played, after_mail, lured, again, insisting)
    return st.integers(0, len(kinds) - 1).flatmap(kinds.__getitem__)


def in_advance(script: tuple[Reply, ...], *tools: str) -> st.SearchStrategy[frozenset[Identity]]:
    """At most one tuple, from before the run began, about a call of one of these tools."""
    said = [call for reply in script for call in reply.calls]
    known = [(tool, CANONICAL[text]) for tool, text in said if tool in tools and text in CANONICAL]
    found = [Identity("c1", *one) for one in (*known, (tools[0], "{}"))]
    return st.frozensets(st.sampled_from(found), max_size=1)


def alone(script: tuple[Reply, ...]) -> st.SearchStrategy[Kind]:
    """A run without workers, whose model plays the script."""
    return st.builds(
        Kind,
        st.just(script),
        hatch=st.booleans(),
        unattended=st.sampled_from([False, False, True]),
        checkpoints=st.booleans(),
        forwarded=st.booleans(),
        by_turn=st.booleans(),
        approved=in_advance(script, "post", "share", "write", "hidden"),
        denied=in_advance(script, "send", "stamp", "tidy"),
        elsewhere=in_advance(script, "inbox", "stranger", "shell"),
    )


ALONE: Final = scripts(mostly(PLAIN, ASKING)).flatmap(alone)
STAFFED: Final = st.builds(
    Kind,
    scripts(st.booleans().flatmap(lambda drawn: DELEGATING if drawn else PLAIN)),
    scripts(PLAIN),
    unattended=st.sampled_from([False, False, False, True]),
    checkpoints=st.booleans(),
)
