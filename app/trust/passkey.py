"""Passkeys: what an authenticator said, read strictly, and whether it holds.

`webauthn` checks the ceremony; what it leaves to its callers is checked here: one meaning of the
client's data, no frame of another site, an origin that the relying party owns. An assertion signs
the SHA-256 of a text, its challenge; the text is canonical and kept beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from webauthn import verify_authentication_response, verify_registration_response
from webauthn.helpers.cose import COSEAlgorithmIdentifier

from app.engine.json.arguments import canonical_bytes
from app.trust import base64url
from app.trust.documents import first_problem, is_canonical, read_model
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

ALGORITHMS: Final = (
    COSEAlgorithmIdentifier.ECDSA_SHA_256,
    COSEAlgorithmIdentifier.EDDSA,
    COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
)
PROOF_BYTES: Final = 1 << 20
_COUNTER: Final = slice(33, 37)
_LONGEST_ID: Final = 1023
_ORIGIN: Final = re.compile(r"(https?)://([a-z0-9.-]+)(?::[0-9]{1,5})?")

_Encoded = Annotated[str, Field(max_length=PROOF_BYTES)]


class _Said(BaseModel):
    """Browsers add members as the standard grows; they mean nothing here."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _ClientData(_Said):
    type: str
    challenge: str
    origin: str
    crossOrigin: bool = False  # noqa: N815  The name is the standard's.
    topOrigin: str | None = None  # noqa: N815  The name is the standard's.


class _Response(_Said):
    clientDataJSON: _Encoded  # noqa: N815  The name is the standard's.


class _Asserted(_Response):
    authenticatorData: _Encoded  # noqa: N815  The name is the standard's.
    signature: _Encoded


class _Credential(_Said):
    id: Annotated[str, Field(max_length=4 * _LONGEST_ID)]
    rawId: str  # noqa: N815  The name is the standard's.
    type: Literal["public-key"]


class _Assertion(_Credential):
    response: _Asserted


class _Registration(_Credential):
    response: _Response


class _Proof(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    canonical: Annotated[str, Field(max_length=PROOF_BYTES)]
    assertion: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Passkey:
    """A registered credential: its public key as COSE, and the relying party it is bound to."""

    credential_id: bytes
    public_key: bytes
    rp_id: str

    @property
    def thumbprint(self) -> str:
        """Base64url of the SHA-256 of the credential id."""
        return thumbprint_of(self.credential_id)


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A credential that its authenticator has just made, and the count it starts from."""

    passkey: Passkey
    sign_count: int


@dataclass(frozen=True, slots=True)
class PasskeyProof:
    """A text, and an assertion of sound form over it that nobody has verified yet."""

    canonical: bytes
    credential_id: bytes
    sign_count: int
    client: _ClientData
    document: dict[str, Any]

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the passkey that it claims to come from."""
        return thumbprint_of(self.credential_id)

    @property
    def evidence(self) -> bytes:
        """The one text of the proof, to be stored and verified again."""
        return canonical_bytes({"canonical": self.canonical.decode(), "assertion": self.document})


def thumbprint_of(credential_id: bytes) -> str:
    """What a passkey is known by: base64url of the SHA-256 of its credential id."""
    return base64url.encode(sha256(credential_id).digest())


def challenge_of(canonical: bytes) -> bytes:
    """The challenge that an assertion over `canonical` answers."""
    return sha256(canonical).digest()


def read_proof(proof: object) -> PasskeyProof | Refused:
    """Everything about {`canonical`, `assertion`} that can be judged without the passkey."""
    try:
        read = _Proof.model_validate(proof)
        assertion = _Assertion.model_validate(read.assertion)
        canonical_bytes(read.assertion)
    except ValidationError as error:
        return Refused("{}: {}".format(*first_problem(error)))
    except ValueError as error:
        return Refused(f"the assertion has no canonical form: {error}")
    canonical = read.canonical.encode(errors="surrogatepass")
    if not is_canonical(canonical):
        return Refused("canonical must be canonical JSON (RFC 8785)")
    client = _client_data(assertion.response)
    credential_id = _credential_id(assertion)
    authenticator = base64url.decode(assertion.response.authenticatorData) or b""
    if isinstance(client, Refused):
        return client
    if credential_id is None or len(authenticator) < _COUNTER.stop:
        return Refused("id must be that of a credential, authenticatorData 37 bytes or more")
    count = int.from_bytes(authenticator[_COUNTER], "big")
    return PasskeyProof(canonical, credential_id, count, client, read.assertion)


def verify_proof(
    proof: PasskeyProof, *, passkey: Passkey, origins: Collection[str] | None
) -> Refused | None:
    """Why the proof is not the passkey's word over its text, with the user verified.

    Without `origins` any of the relying party will do: what was taken once is verified again. The
    sign counter is not looked at: it is a matter of what was seen before.
    """
    if proof.credential_id != passkey.credential_id:
        return Refused("the assertion is of another credential")
    if refused := _foreign(proof.client, passkey.rp_id, origins):
        return refused
    try:
        verify_authentication_response(
            credential=proof.document,
            expected_challenge=challenge_of(proof.canonical),
            expected_rp_id=passkey.rp_id,
            expected_origin=proof.client.origin,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except Exception:  # noqa: BLE001  Whatever the library raises is one refusal, never a 500.
        return Refused("the assertion does not hold")
    return None


def challenge_in(credential: object) -> bytes | Refused:
    """The challenge that a registration claims to answer; only its issuer may believe it."""
    registration = _registration(credential)
    if isinstance(registration, Refused):
        return registration
    client = _client_data(registration.response)
    if isinstance(client, Refused):
        return client
    return base64url.decode(client.challenge) or Refused("the challenge must be base64url")


def verify_registration(
    credential: dict[str, Any], *, challenge: bytes, rp_id: str, origins: Collection[str]
) -> NewPasskey | Refused:
    """The new passkey, made with the user verified, in answer to `challenge`."""
    registration = _registration(credential)
    if isinstance(registration, Refused):
        return registration
    client = _client_data(registration.response)
    if isinstance(client, Refused):
        return client
    if refused := _foreign(client, rp_id, origins):
        return refused
    try:
        made = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=client.origin,
            require_user_verification=True,
            supported_pub_key_algs=list(ALGORITHMS),
        )
    except Exception:  # noqa: BLE001  Whatever the library raises is one refusal, never a 500.
        return Refused("the registration does not hold")
    if made.credential_id != _credential_id(registration):
        return Refused("id must be that of the credential")
    passkey = Passkey(made.credential_id, made.credential_public_key, rp_id)
    return NewPasskey(passkey, made.sign_count)


def _foreign(client: _ClientData, rp_id: str, origins: Collection[str] | None) -> Refused | None:
    if client.crossOrigin or client.topOrigin is not None:
        return Refused("crossOrigin must be false: no frame of another site may ask")
    if origins is not None and client.origin not in origins:
        return Refused("origin must be one of the allowed origins")
    if not owns(rp_id, client.origin):
        return Refused("origin must be one of the relying party's")
    return None


def owns(rp_id: str, origin: str) -> bool:
    """Whether a page of `origin` may use passkeys of `rp_id`: TLS, except on localhost."""
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        return False
    scheme, host = found.groups()
    is_local = host == "localhost" or host.endswith(".localhost")
    return (scheme == "https" or is_local) and (host == rp_id or host.endswith(f".{rp_id}"))


def _registration(credential: object) -> _Registration | Refused:
    try:
        return _Registration.model_validate(credential)
    except ValidationError as error:
        return Refused("{}: {}".format(*first_problem(error)))


def _client_data(response: _Response) -> _ClientData | Refused:
    return read_model(_ClientData, base64url.decode(response.clientDataJSON) or b"")


def _credential_id(credential: _Credential) -> bytes | None:
    found = base64url.decode(credential.id)
    return found if found and credential.rawId == credential.id else None
