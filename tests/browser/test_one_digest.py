"""The canonical text and its digest, which a page and the service must make alike (F81)."""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING

import pytest

from app.engine.json.arguments import canonical_bytes
from tests.browser.chromium import needs_chromium

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.browser.chromium import Browser
    from tests.browser.conftest import House

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

VALUES, AT_ONCE = 10_000, 1_000
LARGEST = 2**53 - 1
# What a text may need escaped, what sorts differently in UTF-8 and UTF-16, and plain letters.
LETTERS = 'ab"\\/\b\t\n\f\r\x01\x1f\x7f\x80\u00e9\u2028\u20ac\ud7ff\ue000\ufb33\uffff\U0001f600'
BOTH = """
import('/deciding.js').then(async ({ canonical, digest }) => {
  const values = JSON.parse(GIVEN);
  const once = values.map(canonical);
  const twice = once.map((text) => canonical(JSON.parse(text)));
  return [await Promise.all(once.map(digest)), once.every((text, at) => text === twice[at])];
})"""


def text(chance: Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(5)))


def number(chance: Random) -> float:
    """Any double that has a canonical form, its exponent as likely small as large."""
    while True:
        (drawn,) = struct.unpack("<d", chance.randbytes(8))
        if abs(drawn) <= LARGEST:
            return float(drawn)


def value(chance: Random, depth: int = 3) -> JsonValue:
    match chance.randrange(7 if depth else 5):
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.randint(-LARGEST, LARGEST) >> chance.randrange(54)
        case 2 | 3:
            return number(chance)
        case 4:
            return text(chance)
        case 5:
            return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case _:
            return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(5))}


async def test_f81_a_page_and_the_service_make_one_digest_of_any_value(
    browser: Browser, house: House
) -> None:
    chance = Random(81)  # noqa: S311 - values to compare, and the same ones in every run
    async with browser.page(f"{house.site}/index.html") as page:
        for _ in range(VALUES // AT_ONCE):
            values = [value(chance) for _ in range(AT_ONCE)]
            ours = [canonical_bytes(one) for one in values]
            given = json.dumps(json.dumps(values))
            theirs, are_stable = await page.value(BOTH.replace("GIVEN", given))
            assert theirs == [sha256(one).hexdigest() for one in ours]
            assert are_stable
            assert [canonical_bytes(json.loads(one)) for one in ours] == ours
