"""A question, and the service's statement of its answers."""

from __future__ import annotations

import json
from typing import Any

from app.trust.statement import StatementKind, sign_statement
from tests.trust.logs import SERVICE

KID = "seal-1"
ASKED: dict[str, Any] = {
    "id": "ques_1",
    "status": "pending",
    "run_id": "run_1",
    "call_id": "call_1_1_0",
    "questions": [
        {"index": 0, "header": "When", "question": "When?", "options": [{"label": "today"}]},
        {"index": 1, "header": "Who", "question": "Who?", "options": [{"label": "Ann"}]},
    ],
}
CALL = json.dumps({"turn_id": "turn_1", "args_sha256": "a" * 64, "roles": ["boss"]}).encode()
STATEMENT: dict[str, Any] = {
    "v": 1,
    "tenant": "acme",
    "conversation_id": "conv_1",
    "run_id": "run_1",
    "turn_id": "turn_1",
    "call_id": "call_1_1_0",
    "question_id": "ques_1",
    "args_sha256": "a" * 64,
    "outcome": "answered",
    "answers": [{"index": 0, "option": 0, "label": "today"}],
    "answered_by": "alice",
    "is_principals_own": True,
}
ANSWERED: dict[str, Any] = {
    "question_id": "ques_1",
    "call_id": "call_1_1_0",
    "answers": [{"index": 0, "option": 0, "label": "today"}],
    "outcome": "answered",
    "answered_by": "alice",
}


def stated(kind: StatementKind = StatementKind.QUESTION_ANSWER, **changed: Any) -> bytes:
    """The signed bytes of the statement with these members changed."""
    return sign_statement(kind, STATEMENT | changed, key=SERVICE, kid=KID).encode()
