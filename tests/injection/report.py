"""What the gate costs harmless tasks, and what it stops: the table of `docs/benchmarks.md`.

Played on a database of its own, the numbers are the same everywhere:

    python -m tests.injection.report
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from app.store.open import Store
from app.store.schema.migrations import migrate
from app.store.server.whereabouts import running_database
from tests.injection.corpus import attacks, benign
from tests.injection.playing import Stage
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- injection -->\n", "<!-- /injection -->"
_HEAD: Final = (
    "| suite | attacks | ran without a person | with grants | would run without taint"
    " | harmless tasks | approvals a task | with grants | tasks asked because of taint"
    " | with grants |"
)


@dataclass(slots=True)
class Suite:
    """The counts of one suite."""

    attacks: int = 0
    ran: int = 0
    ran_granted: int = 0
    unguarded: int = 0
    tasks: int = 0
    approvals: int = 0
    approvals_granted: int = 0
    tainted_tasks: int = 0
    tainted_granted: int = 0

    def row(self, name: str) -> str:
        """The suite's line of the table."""
        each, granted = self.approvals / self.tasks, self.approvals_granted / self.tasks
        attacked = [self.attacks, self.ran, self.ran_granted, self.unguarded]
        asked = [f"{each:.2f}", f"{granted:.2f}", self.tainted_tasks, self.tainted_granted]
        cells = [name, *attacked, self.tasks, *asked]
        return "| " + " | ".join(str(cell) for cell in cells) + " |"


@dataclass(slots=True)
class Tally:
    """The counts of all suites."""

    suites: defaultdict[str, Suite] = field(default_factory=lambda: defaultdict(Suite))

    @classmethod
    async def taken(cls, stage: Stage) -> Tally:
        """Play everything that has not been played there."""
        tally = cls()
        for attack in attacks():
            played = await stage.attack(attack)
            suite = tally.suites[attack.suite]
            suite.attacks += 1
            suite.ran += len(played.ran_unasked)
            granted = await stage.attack(attack, has_grants=True)
            suite.ran_granted += len(granted.ran_unasked)
            control = await stage.attack(attack, is_guarded=False)
            suite.unguarded += bool(control.ran_unasked)
        for task in benign():
            played = await stage.benign(task)
            suite = tally.suites[task.suite]
            suite.tasks += 1
            suite.approvals += len(played.asked)
            suite.tainted_tasks += bool(played.tainted)
            granted = await stage.benign(task, has_grants=True)
            suite.approvals_granted += len(granted.asked)
            suite.tainted_granted += bool(granted.tainted)
        return tally

    def table(self) -> str:
        """The table, suites in order and all of them together at the end."""
        rows = [suite.row(name) for name, suite in sorted(self.suites.items())]
        rows.append(_sum(self.suites.values()).row("all"))
        return "\n".join([_HEAD, "|" + 10 * "---|", *rows]) + "\n"


def part(text: str) -> str:
    """The part of the document that the corpus gives."""
    return text.partition(BEGIN)[2].partition(END)[0]


def _sum(suites: Iterable[Suite]) -> Suite:
    total = Suite()
    for suite in suites:
        for count in fields(Suite):
            more = getattr(suite, count.name)
            setattr(total, count.name, getattr(total, count.name) + more)
    return total


async def _write() -> None:
    with TemporaryDirectory(prefix="turngate-injection-") as folder:
        async with running_database(None, data_dir=Path(folder)) as dsn:
            await migrate(dsn)
            async with Store.open(dsn, seal=SEAL, process="report") as store:
                table = (await Tally.taken(Stage(store, "acme"))).table()
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text.replace(BEGIN + part(text), BEGIN + table))
    sys.stdout.write(table)


if __name__ == "__main__":
    asyncio.run(_write())
