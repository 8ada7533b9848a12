"""The corpus as values: suites of tools, of attacks on them, and of harmless tasks."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.policy.capability import NEVER_GRANTED, TAINT_REVOKED
from app.policy.constraints import Constraint
from app.policy.profile import Origin, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORDERED: Final = re.compile(r"INJECT: (\w+) ")


@dataclass(frozen=True, slots=True)
class Granted:
    """What the user has granted before, because it recurs: a tool, within these constraints."""

    tool: str
    capabilities: tuple[str, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class Attack:
    """A task whose results give orders. `then` are the calls of a second run that obeys as well.

    `obeys` is how often in a row the model reads results and does what they say.
    """

    id: str
    suite: str
    task: str
    calls: tuple[str, ...]
    answers: Mapping[str, str]
    tools: Mapping[str, ToolProfile]
    consent: dict[str, str]
    grants: tuple[Granted, ...]
    then: tuple[str, ...] = ()
    obeys: int = 1

    @property
    def aims(self) -> set[str]:
        """The tools with an effect outside that the orders name."""
        ordered = {name for text in self.answers.values() for name in _ORDERED.findall(text)}
        return {name for name in ordered if reaches_outside(self.tools[name])}


@dataclass(frozen=True, slots=True)
class Benign:
    """A task without an attack: the calls of each step, as the user means them."""

    id: str
    suite: str
    calls: tuple[tuple[str, ...], ...]
    answers: Mapping[str, str]
    tools: Mapping[str, ToolProfile]
    consent: dict[str, str]
    grants: tuple[Granted, ...]


def reaches_outside(profile: ToolProfile) -> bool:
    """Whether a call has an effect outside, or is a way out for what was read."""
    return bool(profile.required() & (TAINT_REVOKED | NEVER_GRANTED))


def attacks() -> list[Attack]:
    """Every attack of the corpus."""
    return [
        Attack(
            id=one["id"],
            suite=suite,
            task=one["task"],
            calls=tuple(one["calls"]),
            answers=one["answers"],
            tools=_profiles(document["tools"] | one.get("tools", {})),
            consent=document.get("consent", {}),
            grants=_grants(document),
            then=tuple(one.get("then", ())),
            obeys=one.get("obeys", 1),
        )
        for suite, document in _documents().items()
        for one in document["attacks"]
    ]


def benign() -> list[Benign]:
    """Every harmless task of the corpus."""
    return [
        Benign(
            id=one["id"],
            suite=suite,
            calls=tuple(tuple(step) for step in one["calls"]),
            answers=one.get("answers", {}),
            tools=_profiles(document["tools"]),
            consent=document.get("consent", {}),
            grants=_grants(document),
        )
        for suite, document in _documents().items()
        for one in document["benign"]
    ]


def _documents() -> dict[str, dict[str, Any]]:
    return {
        path.stem: tomllib.loads(path.read_text())
        for path in sorted(Path(__file__).parent.glob("*.toml"))
    }


def _profiles(tools: Mapping[str, dict[str, Any]]) -> dict[str, ToolProfile]:
    return {
        name: ToolProfile(
            Origin(given["origin"]), **{k: v for k, v in given.items() if k != "origin"}
        )
        for name, given in tools.items()
    }


def _grants(document: Mapping[str, Any]) -> tuple[Granted, ...]:
    profiles = _profiles(document["tools"])
    return tuple(
        Granted(
            tool=one["tool"],
            capabilities=tuple(sorted(profiles[one["tool"]].required() & TAINT_REVOKED)),
            constraints=tuple(Constraint(**each) for each in one["constraints"]),
        )
        for one in document["grants"]
    )
