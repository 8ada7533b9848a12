"""What is said about a log, and about projections that differ."""

from __future__ import annotations

from app.cli.rebuilding import told as told_differences
from app.cli.verdicts import told
from app.store.log.rebuild import Difference
from app.trust.export import Finding, Report


def test_a_sound_log_tells_what_was_checked() -> None:
    lines = list(told("conv_1", Report(1, 2, [])))
    assert lines == ["sound     conv_1: 1 event, 2 signed decisions"]


def test_what_no_seal_covers_is_told() -> None:
    lines = list(told("conv_1", Report(9, 0, [], unsealed=2)))
    assert lines == [
        "sound     conv_1: 9 events, 0 signed decisions, 2 events at its end not sealed"
    ]


def test_a_tampered_log_tells_where() -> None:
    findings = [Finding("seq 7", "hash does not cover body and private bytes")]
    assert list(told("conv_1", Report(9, 1, findings))) == [
        "tampered  conv_1: 9 events, 1 signed decision, 1 finding",
        "  seq 7: hash does not cover body and private bytes",
    ]


def test_a_log_that_was_replaced_does_not_fill_the_screen() -> None:
    findings = [Finding(f"seq {seq}", "wrong") for seq in range(1, 101)]
    lines = list(told("conv_1", Report(100, 0, findings)))
    assert (len(lines), lines[20], lines[21]) == (22, "  seq 20: wrong", "  and 80 more")


def test_differences_are_told_by_place_and_never_by_value() -> None:
    found = [
        Difference("runs", "run_1", "answer", "private", None),
        Difference("runs", "run_1", "steps", 9, 2),
        Difference("approvals", "appr_1", "status", "approved", "pending"),
    ]
    lines = ["runs run_1: answer, steps", "approvals appr_1: status"]
    assert list(told_differences(found, repair=False)) == [
        *lines,
        "run with --repair to put it right",
    ]
    assert list(told_differences(found, repair=True)) == [*lines, "repaired"]
    assert list(told_differences([], repair=True)) == ["every projection equals its rebuild"]
