"""A person at the public API: a token, a key of their own, requests, and one stream.

It is what any client needs, and knows nothing of the service but its contract: a key makes proofs
and decisions, and what is signed is exactly the canonical text that the service offers, after it
was compared with what was shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from app.cli.demo.server import DemoFailed
from app.engine.json.arguments import canonical_bytes
from app.trust.jose import sign_jws
from app.trust.keys import SigningKey

if TYPE_CHECKING:
    from pydantic import JsonValue
    from websockets.sync.client import ClientConnection

Document: TypeAlias = Mapping[str, Any]

PROOF_S: Final = 300
FRAME_S: Final = 120.0
_DECISION_TYPE: Final = "turngate-decision+jws"
_PROOF_TYPE: Final = "turngate-key-proof+jws"


class Unexpected(DemoFailed):
    """The service answered otherwise than the demo needs; the message shows its problem."""


@dataclass(slots=True)
class Person:
    """Who acts, and with which key; `key_id` is known once it is registered."""

    tenant: str
    sub: str
    token: str
    key: SigningKey
    key_id: str = ""


@dataclass(slots=True)
class Client:
    """The requests of one person."""

    address: str
    person: Person
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.person.token}"}
        self.http = httpx.Client(
            base_url=self.address, headers=headers, timeout=FRAME_S, trust_env=False
        )

    def call(self, method: str, path: str, body: Document | None = None) -> Document:
        """The document a request answers with. Raises Unexpected."""
        try:
            answer = self.http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise Unexpected(f"{method} {path}: no answer: {error}") from error
        if not answer.is_success:
            raise Unexpected(f"{method} {path}: {answer.status_code} {_refusal(answer)}")
        document: Document = answer.json()
        return document

    def register_key(self, label: str, *, now: int) -> Document:
        """Enrol the person's key with the proof that they hold it."""
        public = self.person.key.public
        statement: dict[str, JsonValue] = {
            "typ": "turngate.key-proof",
            "tenant": self.person.tenant,
            "sub": self.person.sub,
            "thumbprint": public.thumbprint(),
            "iat": now,
            "exp": now + PROOF_S,
        }
        proof = self._sign(canonical_bytes(statement), kid=public.thumbprint(), typ=_PROOF_TYPE)
        body = {"public_jwk": public.jwk(), "label": label, "proof_jws": proof}
        registered = self.call("POST", "/v1/keys", body)
        self.person.key_id = registered["id"]
        return registered

    def events(self, run_id: str) -> Iterator[Document]:
        """Every event of a run over its WebSocket, from the first to its end."""
        url = f"{self.address.replace('http', 'ws', 1)}/v1/runs/{run_id}/stream"
        with connect(url, subprotocols=["turngate.v1"], proxy=None) as socket:  # type: ignore[list-item] # its NewType is a plain text
            socket.send(json.dumps({"type": "auth", "token": self.person.token}))
            socket.send(json.dumps({"type": "subscribe", "after": 0}))
            while (frame := _frame(socket))["type"] != "end":
                if frame["type"] == "error":
                    raise Unexpected(f"the stream: {frame['code']}: {frame['detail']}")
                if frame["type"] == "event":
                    yield frame["event"]

    def offer(self, shown: Document, decision: str, **members: object) -> str:
        """The canonical text of a decision on the approval that was shown. Raises Unexpected."""
        path = f"/v1/approvals/{shown['id']}/payload"
        offered: str = self.call("POST", path, {"decision": decision, **members})["canonical"]
        check_binding(shown, json.loads(offered))
        return offered

    def hand_in(self, shown: Document, decision: str, canonical: str) -> Document:
        """Sign exactly `canonical` and send it; the approval afterwards. Raises Unexpected."""
        jws = self._sign(canonical.encode(), kid=self.person.key_id, typ=_DECISION_TYPE)
        answer = self.call("POST", f"/v1/approvals/{shown['id']}/{decision}", {"decision_jws": jws})
        approval: Document = answer["approval"]
        return approval

    def _sign(self, payload: bytes, *, kid: str, typ: str) -> str:
        return sign_jws(payload, key=self.person.key, kid=kid, typ=typ)


def _refusal(answer: httpx.Response) -> str:
    """What a problem says, in one line; any other body as it is."""
    try:
        problem = answer.json()
        places = [f"{each['pointer']}: {each['detail']}" for each in problem.get("errors", ())]
        return "; ".join([f"{problem['code']}: {problem['detail']}", *places])
    except (ValueError, LookupError, AttributeError, TypeError):
        return answer.text


def _frame(socket: ClientConnection) -> dict[str, Any]:
    try:
        frame: dict[str, Any] = json.loads(socket.recv(FRAME_S))
    except (ConnectionClosed, TimeoutError) as error:
        raise Unexpected(f"the stream ended before its run: {error}") from error
    return frame


def check_binding(shown: Document, payload: Document) -> None:
    """Refuse to sign anything but what was shown. Raises Unexpected."""
    digest = sha256(shown["args_canonical"].encode()).hexdigest()
    bound = {"approval_id": shown["id"], "args_sha256": digest}
    for name in ("run_id", "conversation_id", "tool", "tool_definition_digest"):
        bound[name] = shown[name]
    for name, value in bound.items():
        if payload[name] != value:
            raise Unexpected(f"{name} of the payload is {payload[name]!r}, shown was {value!r}")
