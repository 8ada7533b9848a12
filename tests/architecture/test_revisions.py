"""The migrations are one line: two that came from two sides at once would leave no head."""

from __future__ import annotations

import re

from app.store.schema.migrations import HEAD, SCRIPTS

FILES = sorted((SCRIPTS / "versions").glob("*.py"))


def test_each_revision_follows_the_one_before_and_the_last_is_the_head() -> None:
    named = [re.findall(r"^(?:down_)?revision = (.+)$", f.read_text(), re.MULTILINE) for f in FILES]
    numbers = [f'"{number:04}"' for number in range(1, len(FILES) + 1)]
    assert named == [list(each) for each in zip(numbers, ["None", *numbers[:-1]], strict=True)]
    assert [file.name[:4] for file in FILES] == [number.strip('"') for number in numbers]
    assert f'"{HEAD}"' == numbers[-1]
