"""What every answer must be like, whatever was sent (service.md 1 and 11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.api.codes import ANSWERS

if TYPE_CHECKING:
    import httpx

    from tests.hostile.description import Operation

PROBLEM = "application/problem+json"
# A path that was bent may lead to another route, or to none.
ASTRAY = frozenset({401, 404, 405})


def faults(answer: httpx.Response, operation: Operation, *, also: frozenset[int]) -> list[str]:
    """What is wrong with an answer; `also` are statuses that are right beside the described."""
    found = []
    # 501 is a promise: what is asked for is known, and not to be had here.
    if answer.status_code >= 500 and answer.status_code != 501:
        found.append(f"answers {answer.status_code}")
    if answer.status_code not in operation.statuses | also:
        found.append(f"{answer.status_code} is not described")
    if not answer.headers.get("x-request-id", "").isprintable():
        found.append("the request has no sound id")
    if answer.headers.keys() & {"x-injected", "server"}:
        found.append("a header comes from the request, or tells of the server")
    if answer.status_code >= 400:
        found += _faults_of_problem(answer)
    return found


def _faults_of_problem(answer: httpx.Response) -> list[str]:
    if answer.headers.get("content-type") != PROBLEM:
        return [f"a refusal of the type {answer.headers.get('content-type')}"]
    problem: dict[str, Any] = json.loads(answer.content)
    found = [
        f"the problem has no {name}"
        for name in ("type", "title", "status", "detail", "code", "instance")
        if name not in problem
    ]
    known = ANSWERS.get(problem["code"])
    if known is None or known.status != answer.status_code:
        found.append(f"{problem['code']} under {answer.status_code}")
    if "Traceback" in answer.text or ".py" in answer.text or "SELECT " in answer.text:
        found.append("the refusal tells of the program")
    return found
