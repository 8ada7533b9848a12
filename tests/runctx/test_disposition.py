"""How an attachment reaches the model (run-context.md 4.1-4.4, 11.F)."""

from __future__ import annotations

import pytest

from app.runctx.disposition import (
    Degradation,
    Disposition,
    DispositionPolicy,
    InvalidDisposition,
    disposition_hints,
    effective_disposition,
    parse_disposition,
    resolve_disposition,
    tool_of,
)
from app.runctx.mime import media_type
from tests.runctx.attached import Tools

GOOD = ("ref", "inline", "provider_native", "tool:pdf.extract", "tool:" + "x" * 128)
BAD = ("", "REF", "tool:", "tool", "native", "inline ", "tool: ", "tool:a b", "tool:a\x00")


def policy(**entries: str) -> DispositionPolicy:
    return DispositionPolicy.parse({key.replace("_", "/"): one for key, one in entries.items()})


@pytest.mark.parametrize("text", GOOD)
def test_c90_a_disposition_is_read_to_the_letter(text: str) -> None:
    assert parse_disposition(text) == text


@pytest.mark.parametrize("text", [*BAD, "tool:" + "x" * 129])
def test_c90_everything_else_is_none(text: str) -> None:
    with pytest.raises(InvalidDisposition):
        parse_disposition(text)


def test_c77_hints_are_typed_and_not_checked() -> None:
    assert disposition_hints(None) is None
    assert disposition_hints({}) is None
    assert disposition_hints({"art_1": " odd "}) == {"art_1": " odd "}


@pytest.mark.parametrize("hint", GOOD)
def test_c85_a_hint_wins_over_the_policy(hint: str) -> None:
    asked = resolve_disposition(Disposition(hint), policy(image_png="ref"), "image/png")
    assert asked == (hint, "caller_hint")


def test_c86_the_exact_type_beats_the_family_which_beats_the_default() -> None:
    rules = {"image/png": "ref", "image/*": "provider_native", "*": "tool:any"}
    parsed = DispositionPolicy.parse(rules)
    assert resolve_disposition(None, parsed, "image/png") == ("ref", "agent_policy")
    assert resolve_disposition(None, parsed, "image/gif") == ("provider_native", "agent_policy")
    assert resolve_disposition(None, parsed, "text/plain") == ("tool:any", "agent_policy")


def test_c86_a_policy_that_does_not_speak_leaves_it_to_the_runtime() -> None:
    silent = policy(text_plain="inline")
    assert resolve_disposition(None, silent, "image/png") == ("inline", "runtime_default")
    assert resolve_disposition(None, silent, "audio/wav") == ("ref", "runtime_default")


def test_an_empty_hint_does_not_speak() -> None:
    asked = resolve_disposition(Disposition(""), policy(image_png="ref"), "image/png")
    assert asked == ("ref", "agent_policy")


def test_c87_a_type_that_is_none_is_referred_to() -> None:
    assert media_type("image") == ""
    assert resolve_disposition(None, None, "") == ("ref", "runtime_default")
    assert resolve_disposition(None, None, "image") == ("ref", "runtime_default")


def test_c88_only_images_go_inline() -> None:
    lost = Degradation("inline", "inline_unsupported_mime")
    assert effective_disposition("inline", "application/pdf", None) == ("ref", lost)
    assert effective_disposition("inline", "IMAGE/PNG", None) == ("inline", None)


def test_c89_without_a_catalogue_every_tool_holds() -> None:
    assert effective_disposition("tool:x", "text/plain", None) == ("tool:x", None)


@pytest.mark.parametrize("value", ["garbage", "tool:", "tool:a b"])
def test_c89_what_is_no_disposition_is_a_reference(value: str) -> None:
    lost = Degradation(value, "invalid_disposition")
    assert effective_disposition(value, "image/png", Tools(x="text/plain")) == ("ref", lost)


@pytest.mark.parametrize("value", ["", "ref", "provider_native"])
def test_c89_what_needs_nothing_is_left_as_it_is(value: str) -> None:
    assert effective_disposition(value, "text/plain", Tools()) == (value, None)


def test_a_tool_that_the_run_lacks_is_named() -> None:
    """C74, for the value."""
    lost = Degradation("tool:no.such.tool", "unknown_tool", "no.such.tool")
    assert effective_disposition("tool:no.such.tool", "text/plain", Tools()) == ("ref", lost)
    has = Tools(x="text/plain")
    assert effective_disposition("tool:x", "text/plain", has) == ("tool:x", None)


def test_a_tool_is_named_by_its_disposition_alone() -> None:
    assert tool_of("tool:x") == "x"
    assert tool_of("ref") is None


def test_c91_a_policy_has_a_default_and_may_be_empty() -> None:
    assert DispositionPolicy.parse(None) == DispositionPolicy.parse({}) == DispositionPolicy()
    anything = DispositionPolicy.parse({"*": "provider_native"})
    assert anything.said_of("text/plain") == "provider_native"
    assert anything.said_of("") == "provider_native"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image/png", "bogus"),
        ("text/plain; charset=utf-8", "ref"),
        ("image", "ref"),
        ("*/png", "ref"),
        ("*/*", "ref"),
        ("image/p*", "ref"),
        (" image/png", "ref"),
        ("", "ref"),
    ],
)
def test_c91_a_policy_that_says_nothing_sound_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidDisposition):
        DispositionPolicy.parse({key: value})


def test_c92_parameters_and_case_do_not_matter() -> None:
    rules = DispositionPolicy.parse({"Text/Plain": "tool:read"})
    asked = resolve_disposition(None, rules, "text/plain; charset=utf-8")
    assert asked == ("tool:read", "agent_policy")
    assert resolve_disposition(None, rules, "IMAGE/PNG") == ("inline", "runtime_default")
