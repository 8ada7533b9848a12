"""Every case of agent-run-cases.json, performed on the real run and the real assembler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.engine.agent_run import AgentRun
from app.engine.errors import (
    InvalidRunDocument,
    NonCanonicalHistory,
    PromptError,
    ProtocolViolation,
    UnsupportedRunFormat,
)
from tests.engine import case_checks as check
from tests.engine.case_script import CaseScript, build
from tests.engine.case_values import read_cases

if TYPE_CHECKING:
    from tests.engine.case_values import Json

ERRORS = (PromptError, UnsupportedRunFormat, InvalidRunDocument, NonCanonicalHistory)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in read_cases()])
def test_the_case_holds(case: Json) -> None:
    script = CaseScript(build(case["given"]))
    for item in case["script"]:
        perform(script, item)
        assert AgentRun.load(script.run.dump()).dump() == script.run.dump()
        check.check_run(script.run, item.get("after", {}))
    check.check_run(script.run, case["final"])


def perform(script: CaseScript, item: Json) -> None:
    args, expect = item.get("args", {}), item.get("expect", {})
    if "error" not in item:
        script.perform(item["call"], args, expect)
        return
    before = script.run.dump()
    with pytest.raises(ERRORS) as caught:
        script.perform(item["call"], args, expect)
    check.check_error(caught.value, item["error"])
    if isinstance(caught.value, ProtocolViolation):
        assert script.run.dump() == before
