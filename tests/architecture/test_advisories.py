"""The audit of the locks: what pip-audit reports, and what its silence means."""

from __future__ import annotations

import json

from bench.advisories import Findings, read_report

SOUND = {"name": "h11", "version": "0.16.0", "vulns": []}
SKIPPED = {"name": "h12", "skip_reason": "Dependency not found on PyPI"}
VULNERABLE = {
    "name": "python-jose",
    "version": "3.3.0",
    "vulns": [{"id": "PYSEC-2024-232", "fix_versions": ["3.4.0"], "aliases": ["CVE-2024-33663"]}],
}


def report(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_a_package_with_an_advisory_is_named_with_what_mends_it() -> None:
    assert read_report(report(SOUND, VULNERABLE)) == Findings(
        2, ("python-jose 3.3.0: PYSEC-2024-232, fixed in 3.4.0",), ()
    )


def test_a_package_that_could_not_be_looked_up_is_not_taken_for_sound() -> None:
    assert read_report(report(SOUND, SKIPPED)) == Findings(1, (), (SKIPPED["skip_reason"],))


def test_where_no_package_could_be_looked_up_nothing_was_audited() -> None:
    assert read_report(report(SKIPPED)).audited == 0


def test_a_tool_that_broke_audited_nothing() -> None:
    assert read_report("Traceback (most recent call last):") == Findings(0)
    assert read_report("[]") == Findings(0)
