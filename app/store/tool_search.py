"""Full-text search over the texts of tools: the port `ToolSearch` of the tools.

The texts come with the question, for they are a few hundred, asked for once a turn at most; nothing
of them is stored. A name is read twice, as it is (`simple`, so that `who_is` keeps words that
English passes over) and stemmed (`english`, so that `find_customer` finds `customers_search`); what
is said of a tool is prose, and only stemmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.store.server.connections import borrowed
from app.store.texts import escape_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.queries import ToolQuery, ToolText
    from app.store.server.connections import Pool

# A word of the question becomes a query by itself, quoted by Postgres, before the words are joined:
# no text is ever read in the syntax of queries. A hit of the called name counts four times one of
# an argument.
_NEAREST: Final = """
WITH asked AS (
    SELECT coalesce(string_agg(word::text, ' | ') FILTER (WHERE is_name), '')::tsquery AS called,
        coalesce(string_agg(word::text, ' | ') FILTER (WHERE NOT is_name), '')::tsquery AS given
    FROM (SELECT text, true FROM unnest($1::text[]) AS text
        UNION ALL SELECT text, false FROM unnest($2::text[]) AS text) AS words (text, is_name),
        unnest(ARRAY['simple', 'english']::regconfig[]) AS language,
        plainto_tsquery(language, text) AS word
    WHERE numnode(word) > 0
), tools AS (
    SELECT place, setweight(to_tsvector('simple', called), 'A')
        || setweight(to_tsvector('english', called), 'A')
        || setweight(to_tsvector('english', takes), 'C')
        || setweight(to_tsvector('english', about), 'D') AS words
    FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY
        AS tool (called, takes, about, place)
)
SELECT place - 1 AS place FROM tools, asked
WHERE tools.words @@ (asked.called || asked.given)
ORDER BY 4 * ts_rank(tools.words, asked.called) + ts_rank(tools.words, asked.given) DESC, place
LIMIT $6"""


class StoreToolSearch:
    """Searches with whatever Postgres there is; no tenant is involved."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def nearest(
        self, query: ToolQuery, tools: Sequence[ToolText], *, limit: int
    ) -> Sequence[int]:
        """The places in `tools` of those that match, the nearest first. Raises StoreUnavailable."""
        async with borrowed(self._pool) as connection:
            rows = await connection.fetch(
                _NEAREST,
                list(query.named),
                list(query.given),
                escape_all(tool.called for tool in tools),
                escape_all(tool.takes for tool in tools),
                escape_all(tool.about for tool in tools),
                limit,
            )
        return [row["place"] for row in rows]
