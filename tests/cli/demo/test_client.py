"""The demo's client signs nothing but what was shown."""

from __future__ import annotations

from hashlib import sha256

import pytest

from app.cli.demo.client import Unexpected, check_binding

ARGS = '{"body":"{}","url":"http://127.0.0.1:9000/orders"}'
SHOWN = {
    "id": "appr_1",
    "run_id": "run_1",
    "conversation_id": "conv_1",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args_canonical": ARGS,
}
PAYLOAD = {
    "approval_id": "appr_1",
    "run_id": "run_1",
    "conversation_id": "conv_1",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args_sha256": sha256(ARGS.encode()).hexdigest(),
}


def test_a_payload_of_what_was_shown_passes() -> None:
    check_binding(SHOWN, PAYLOAD)


@pytest.mark.parametrize("name", list(PAYLOAD))
def test_a_payload_of_anything_else_is_refused_by_name(name: str) -> None:
    with pytest.raises(Unexpected, match=f"^{name} of the payload is 'forged', shown was "):
        check_binding(SHOWN, PAYLOAD | {name: "forged"})
