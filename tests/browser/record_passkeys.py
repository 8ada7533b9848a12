"""Record tests/trust/passkey_corpus.json: what a real browser's authenticator says.

    python -m tests.browser.record_passkeys

Only the ceremonies are recorded; what is to become of each is written by hand, in
tests/trust/test_passkey_corpus.py.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from app.trust import base64url
from tests.architecture.sources import ROOT
from tests.browser.ceremonies import ceremonies
from tests.browser.chromium import chromium
from tests.trust.decisions import APPROVE
from tests.trust.signer import b64, compact

if TYPE_CHECKING:
    from tests.browser.ceremonies import Ceremonies
    from tests.browser.chromium import Browser

CORPUS: Final = ROOT / "tests" / "trust" / "passkey_corpus.json"
ALGORITHMS: Final = {"ES256": -7, "EdDSA": -8, "RS256": -257}
CHALLENGE: Final = b"the challenge of a registration"
TEXT: Final = compact(APPROVE)
OTHER: Final = compact(APPROVE | {"decision": "deny", "covered_capabilities": []})
_FLAGS: Final = 32
_VERIFIED: Final = 0x04


def creation(algorithm: int) -> dict[str, Any]:
    """The options of a registration with one algorithm."""
    return {
        "challenge": b64(CHALLENGE),
        "rp": {"id": "localhost", "name": "Turngate"},
        "user": {"id": b64(b"alice"), "name": "alice", "displayName": "alice"},
        "pubKeyCredParams": [{"type": "public-key", "alg": algorithm}],
        "authenticatorSelection": {"userVerification": "required"},
    }


def request(credential: dict[str, Any], text: bytes) -> dict[str, Any]:
    """The options of an assertion over a text."""
    return {
        "challenge": b64(sha256(text).digest()),
        "rpId": "localhost",
        "allowCredentials": [{"type": "public-key", "id": credential["id"]}],
        "userVerification": "required",
    }


def verified_afterwards(assertion: dict[str, Any]) -> dict[str, Any]:
    """The same, with the flag of verification set by somebody who cannot sign."""
    data = bytearray(base64url.decode(assertion["response"]["authenticatorData"]) or b"")
    data[_FLAGS] |= _VERIFIED
    return assertion | {"response": assertion["response"] | {"authenticatorData": b64(bytes(data))}}


async def recorded(those: Ceremonies) -> dict[str, Any]:
    """Every ceremony of the corpus."""
    passkeys = {name: await those.create(creation(each)) for name, each in ALGORITHMS.items()}
    mine, others = passkeys["ES256"], passkeys["EdDSA"]
    asked = request(mine, TEXT)
    sound = {name: await those.get(request(each, TEXT)) for name, each in passkeys.items()}
    unverified = await those.unverified(asked)
    foreign = await those.get(request(others, TEXT))
    wrong = {
        "another origin": await those.elsewhere(asked),
        "a frame of another site": await those.framed(asked),
        "nobody verified": unverified,
        "verified afterwards": verified_afterwards(unverified),
        "another challenge": await those.get(request(mine, OTHER)),
        "another credential": foreign,
        "another key": foreign | {"id": mine["id"], "rawId": mine["rawId"]},
    }
    return {
        "origin": those.site,
        "challenge": b64(CHALLENGE),
        "canonical": TEXT.decode(),
        "passkeys": passkeys,
        "sound": sound,
        "again": await those.get(asked),
        "wrong": wrong,
    }


async def record(sites: list[str], folder: Path) -> None:
    """Write the corpus."""
    async with chromium(folder) as browser:
        version = (await browser.tell("Browser.getVersion"))["product"]
        corpus = {"browser": version} | await _all(browser, sites)
    await asyncio.to_thread(CORPUS.write_text, json.dumps(corpus, indent=1) + "\n")


async def _all(browser: Browser, sites: list[str]) -> dict[str, Any]:
    async with ceremonies(browser, *sites) as those:
        return await recorded(those)


def main() -> None:
    """Serve two origins, and record."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(ROOT / "docs" / "examples"))
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ThreadingHTTPServer(("localhost", 0), handler)) for _ in range(2)
        ]
        folder = stack.enter_context(TemporaryDirectory())
        for server in servers:
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        sites = [f"http://localhost:{server.server_port}" for server in servers]
        asyncio.run(record(sites, Path(folder)))


if __name__ == "__main__":
    main()
