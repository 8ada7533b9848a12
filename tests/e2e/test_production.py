"""In production the development issuer signs for nobody (service.md 2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from app.service.clock import SystemClock
from tests.e2e.processes import END_S, Place, serving
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
ISSUER = "https://issuer.example"


def issued(signer: Signer, iss: str) -> str:
    """A token of a company's own issuer, by the name it gives itself."""
    now = int(SystemClock().now().timestamp())
    claims = {"iss": iss, "aud": "turngate", "sub": "alice", "tid": "acme", "scope": "runs:read"}
    head = {"alg": "ES256", "kid": "company", "typ": "JWT"}
    return signer.jws(
        head, compact(claims | {"jti": iss, "iat": now, "nbf": now, "exp": now + 300})
    )


def test_a_token_of_the_development_issuer_is_refused(tmp_path: Path) -> None:
    signer = Signer.of(11)
    # The key of the issuer lies in the data directory, and another server there would take it.
    development = Place(tmp_path).token("runs:read")
    key = signer.jwk | {"kid": "company", "alg": "ES256", "use": "sig"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [key]}))
    settings = (
        "TURNGATE_ENV=production",
        f"TURNGATE_JWT_ISSUER={ISSUER}",
        f"TURNGATE_JWT_JWKS={tmp_path / 'keys.json'}",
    )
    tokens = [issued(signer, ISSUER), development, issued(signer, "turngate-development")]
    with (
        serving(Place(tmp_path, settings, is_measured=True)) as (address, _),
        httpx.Client(base_url=address, timeout=END_S, trust_env=False) as http,
    ):
        answers = [
            http.get("/v1/runs", headers={"Authorization": f"Bearer {token}"}) for token in tokens
        ]
    assert [answer.status_code for answer in answers] == [200, 401, 401]
    assert [answer.json()["code"] for answer in answers[1:]] == ["auth.token"] * 2
