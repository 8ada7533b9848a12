"""The three scenes of the demo, for the script model and, in plain words, for a real one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCRIPT: Final = "script"
_INSTRUCTIONS: Final = (
    "You place orders. Do exactly what you are asked with your tools, once. "
    "If a call is denied, do not try again; say in one sentence what happened."
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is asked of the agent, and how its approver decides."""

    title: str
    input: str
    decision: str
    members: Mapping[str, object] = field(default_factory=dict)


def agent(model: str) -> dict[str, object]:
    """The agent of all scenes: it may write files, and asks before anything leaves the house."""
    return {
        "model": model,
        "instructions": "" if model == SCRIPT else _INSTRUCTIONS,
        "tools": ["files_write", "http_post"],
        "approval": {"http_post": "ask"},
    }


def approved(model: str, url: str) -> Scene:
    """The main job: a file is written unasked, a request is sent after a signature."""
    order = '{"order":17,"item":"tea","amount":2}'
    script = _script(
        "say I keep the order as a file and send it.",
        _call("files_write", path="orders/17.json", content=order),
        "---",
        _call("http_post", url=url, body=order),
        "---",
        "say Order 17 is on its way.",
    )
    words = (
        f"Write {order} to the file orders/17.json, then post exactly that text to {url}. "
        "Then say in one sentence that order 17 is on its way."
    )
    return Scene("An order is approved", script if model == SCRIPT else words, "approve")


def denied(model: str, url: str) -> Scene:
    """A person says no, and the agent is told."""
    order = '{"order":18,"item":"tea","amount":20000}'
    script = _script(_call("http_post", url=url, body=order), "---", "say Nothing was sent.")
    words = f"Post exactly {order} to {url}."
    members = {"reason": "far too much tea"}
    return Scene("An order is denied", script if model == SCRIPT else words, "deny", members)


def edited(model: str, url: str) -> Scene:
    """A person corrects the arguments, and signs what runs instead."""
    order, better = (f'{{"order":19,"item":"tea","amount":{amount}}}' for amount in (30, 3))
    script = _script(_call("http_post", url=url, body=order), "---", "say Sent as corrected.")
    words = f"Post exactly {order} to {url}."
    members = {"override_args": {"url": url, "body": better}, "note": "three will do"}
    return Scene("An order is corrected", script if model == SCRIPT else words, "approve", members)


def _script(*lines: str) -> str:
    return "\n".join(lines)


def _call(tool: str, **arguments: str) -> str:
    return f"call {tool} {json.dumps(arguments)}"
