"""Everything that is signed, taken for something else, over HTTP: it serves its purpose alone.

The attacker has what travels: tokens, decisions, proofs and endorsements; and in one case the keys
that a process of the service holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from app.trust.keys import derive_signing_key
from tests.support.api.asked import Asked, asked
from tests.support.api.world import problem
from tests.support.log.seals import SERVICE
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    import httpx

    from tests.hostile.target import Target

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What the issuer of the tests signs access tokens with, and the service its statements.
ISSUER: Final = Signer(derive_signing_key(bytes(range(40))).material)
SERVICE_SIGNER: Final = Signer(SERVICE.material)


@pytest_asyncio.fixture(loop_scope="session")
async def case(target: Target, tenant: str) -> Asked:
    """A call that waits for Alice's decision, in a tenant of the test's own."""
    target.world.clock.restart()
    target.world.tenant = f"confused-{tenant}"
    return await asked(target.world)


def claims(case: Asked) -> dict[str, Any]:
    """What an access token of Alice's says."""
    now = int(case.world.clock.now().timestamp())
    who = {"iss": "https://dev.turngate.test", "aud": "turngate", "sub": "alice"}
    return {**who, "tid": case.alice.tenant, "scope": "runs:read", "iat": now, "exp": now + 600}


async def bearing(case: Asked, token: str) -> httpx.Response:
    """The answer to whoever comes with this token."""
    headers = {"Authorization": f"Bearer {token}"}
    return await case.world.http.get("/v1/approvals", headers=headers)


async def test_what_an_approver_signed_opens_nothing_as_a_token(case: Asked) -> None:
    new = Signer.of(77_001)
    claimed = compact(claims(case))
    key_head = {"alg": "ES256", "kid": case.kid, "typ": "JWT"}
    taken = {
        "a decision": await case.jws(case.ids[0]),
        "the proof of a key": case.alice.enrolment(new)["proof_jws"],
        "the endorsement of a key": case.alice.endorsement(new, case.kid, case.signer),
        "claims under the approver's key": case.signer.jws(key_head, claimed),
        "claims under the approver's key and the issuer's id": case.signer.jws(
            key_head | {"kid": ISSUER.public.thumbprint()}, claimed
        ),
        "claims under the service's key": SERVICE_SIGNER.jws(
            key_head | {"kid": SERVICE.public.thumbprint()}, claimed
        ),
    }
    for what, token in taken.items():
        answer = await bearing(case, token)
        assert (what, answer.status_code) == (what, 401)
        problem(answer, 401, "auth.token")


async def test_the_claims_that_those_bend_are_sound_under_the_issuers_key(case: Asked) -> None:
    token = case.alice.token
    assert (await bearing(case, token)).status_code == 200
    bent = token[:-2] + ("AA" if token[-2:] != "AA" else "BA")
    problem(await bearing(case, bent), 401, "auth.token")


async def refused(case: Asked, jws: str) -> str:
    """The code that a decision is refused with; nothing is decided by it."""
    [ident] = case.ids
    answer = await case.alice.post(f"/v1/approvals/{ident}/approve", {"decision_jws": jws})
    assert answer.status_code in {401, 403, 422}, answer.text
    assert (await case.status(ident), await case.run_status()) == ("pending", "paused")
    code: str = answer.json()["code"]
    return code


async def test_a_token_decides_nothing_wherever_it_stands(case: Asked) -> None:
    assert await refused(case, case.alice.token) == "decision.malformed"
    [ident] = case.ids
    for body in ({}, {"decision_jws": ""}, {"passkey": case.alice.token}):
        answer = await case.alice.post(f"/v1/approvals/{ident}/approve", body)
        assert answer.status_code == 422, answer.text
    assert await case.status(ident) == "pending"


async def test_no_other_key_and_no_other_purpose_signs_a_decision(case: Asked) -> None:
    payload = compact(await case.payload(case.ids[0]))
    head = {"alg": "ES256", "kid": case.kid, "typ": "turngate-decision+jws"}
    assert await refused(case, ISSUER.jws(head, payload)) == "decision.signature"
    for typ in ("JWT", "turngate-key-proof+jws", "turngate-key-endorsement+jws"):
        bent = case.signer.jws(head | {"typ": typ}, payload)
        assert await refused(case, bent) == "decision.malformed"
    approve = {"decision_jws": case.signer.jws(head, payload)}
    sound = await case.alice.post(f"/v1/approvals/{case.ids[0]}/approve", approve)
    assert sound.status_code == 200, sound.text


async def test_a_process_that_turned_forges_no_decision_with_the_keys_it_holds(
    case: Asked,
) -> None:
    payload = compact(await case.payload(case.ids[0]))
    head = {"alg": "ES256", "kid": case.kid, "typ": "turngate-decision+jws"}
    assert await refused(case, SERVICE_SIGNER.jws(head, payload)) == "decision.signature"
    own = SERVICE_SIGNER.jws(head | {"kid": SERVICE.public.thumbprint()}, payload)
    assert await refused(case, own) == "decision.signature"


async def test_an_endorsement_serves_one_key_of_one_person(case: Asked) -> None:
    new, other = Signer.of(77_002), Signer.of(77_003)
    word = {"endorsement_jws": case.alice.endorsement(new, case.kid, case.signer)}
    bob = case.world.person("bob")
    await bob.key(Signer.of(77_004))
    taken = await case.alice.post("/v1/keys", case.alice.enrolment(other) | word)
    problem(taken, 403, "key.endorsement")
    problem(await bob.post("/v1/keys", bob.enrolment(new) | word), 403, "key.endorsement")
    assert (await case.alice.post("/v1/keys", case.alice.enrolment(new) | word)).status_code == 201
