"""What the bench says: each number beside its baseline, and the target where there is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of Turngate's, and what the same work costs without it."""

    name: str
    unit: str
    value: float
    baseline: float
    against: str
    target: str = ""

    @property
    def ratio(self) -> float:
        """The number in units of its baseline."""
        return self.value / self.baseline if self.baseline else float("nan")

    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        return (
            self.name,
            f"{_short(self.value)} {self.unit}",
            f"{_short(self.baseline)} {self.unit}",
            f"{self.ratio:.2f}",
            self.against,
            self.target,
        )


@dataclass(slots=True)
class Report:
    """The measures of one run, in the order in which they were taken."""

    measures: list[Measure] = field(default_factory=list)

    def add(self, *measures: Measure) -> None:
        """Take measures in, and say them at once: a bench that is cut off has said something."""
        self.measures += measures
        for each in measures:
            print(" | ".join(each.cells()), flush=True)

    def show(self) -> None:
        """Print the table."""
        table = Table("measure", "Turngate", "baseline", "ratio", "baseline is", "target")
        for measure in self.measures:
            table.add_row(*measure.cells())
        Console(width=150).print(table)

    def write(self, file: Path, machine: str) -> None:
        """Replace the measured part of a document."""
        head = "| measure | Turngate | baseline | ratio | baseline is | target |"
        rows = [head, "|---|---|---|---|---|---|"]
        rows += ["| " + " | ".join(measure.cells()) + " |" for measure in self.measures]
        text = file.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        file.write_text(f"{before}{BEGIN}\n{machine}\n\n" + "\n".join(rows) + f"\n{END}{after}")


def p50_p95(samples: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    cuts = quantiles(samples, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
