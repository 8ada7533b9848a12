"""`make audit`: whether a locked package has a known vulnerability, as pip-audit knows them.

Three ends: nothing is known against any package; something is, or part of a lock could not be
looked up (exit 1); or no package could be, since the advisory data cannot be reached from here
(exit 0, and it says that nothing was audited, so that nobody takes silence for soundness).
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
TOOL: Final = ROOT / ".tools" / "bin" / "pip-audit"
# Where advisories are had: the package index itself, and the database behind it.
SOURCES: Final = ("pypi", "osv")
PATIENCE_S: Final = 240


@dataclass(frozen=True, slots=True)
class Findings:
    """What one lock's audit said; `known` and `unknown` are sentences."""

    audited: int
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def main() -> int:
    """Audit every lock and say what was found."""
    first, *others = sorted(ROOT.glob("requirements*.lock"))
    for source in SOURCES:
        findings = read_report(_audit(first, source))
        if findings.audited:
            rest = {lock.name: read_report(_audit(lock, source)) for lock in others}
            return _tell({first.name: findings} | rest)
    print("The advisory data cannot be reached from here: NOTHING WAS AUDITED.")
    return 0


def read_report(report: str) -> Findings:
    """The findings in pip-audit's JSON; whatever is none audited nothing."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Findings(0)
    unknown = tuple(package["skip_reason"] for package in packages if "skip_reason" in package)
    known = tuple(sentence for package in packages for sentence in _advisories(package))
    return Findings(len(packages) - len(unknown), known, unknown)


def _advisories(package: dict[str, Any]) -> Iterator[str]:
    for vuln in package.get("vulns", ()):
        fixes = ", ".join(vuln["fix_versions"]) or "no version"
        yield f"{package['name']} {package['version']}: {vuln['id']}, fixed in {fixes}"


def _audit(lock: Path, source: str) -> str:
    words = [str(TOOL), "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    words += ["--format", "json", "--vulnerability-service", source, "--requirement", str(lock)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def _tell(found: dict[str, Findings]) -> int:
    for lock, findings in found.items():
        print(f"{lock}: {findings.audited} packages audited, {len(findings.known)} advisories")
        for sentence in (*findings.known, *findings.unknown):
            print(f"  {sentence}")
    return int(any(findings.known or findings.unknown for findings in found.values()))


if __name__ == "__main__":
    sys.exit(main())
