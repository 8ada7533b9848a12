"""Assertions that a real browser makes on wrong pages or of wrong people decide nothing (F128)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.trust import base64url
from tests.browser.ceremonies import ceremonies
from tests.browser.chromium import needs_chromium

if TYPE_CHECKING:
    import httpx

    from tests.browser.chromium import Browser
    from tests.browser.conftest import House

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

TWO = "\n".join(f'call files_write {{"path":"{n}","content":""}}' for n in "ab") + "\n---\nsay ok"


def two_approvals(house: House, token: str) -> list[str]:
    """The approvals of a run that asks twice at once."""
    members: dict[str, Any] = {
        "tools": ["files_write"],
        "approval": {"files_write": "ask"},
        "assurance": {"default": "passkey"},
    }
    run = house.run(token, TWO, **members)
    after = 0
    while (page := house.events(token, run))[-1]["type"] != "run.paused":
        after = page[-1]["seq"]
        with house.http(token) as api:
            api.get(f"/v1/runs/{run}/events", params={"after": after, "wait": 5})
    return [event["data"]["id"] for event in page if event["type"] == "approval.requested"]


def offered(api: httpx.Client, approval: str) -> dict[str, Any]:
    """The text of an approval, and the options to sign it."""
    answer = api.post(f"/v1/approvals/{approval}/passkey-options", json={"decision": "approve"})
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def told(api: httpx.Client, approval: str, text: str, assertion: Any) -> str:
    """What the service makes of an assertion over a text: its code, or the approval's status."""
    proof = {"passkey": {"canonical": text, "assertion": assertion}}
    answer = api.post(f"/v1/approvals/{approval}/approve", json=proof).json()
    said: str = answer.get("code") or answer["approval"]["status"]
    return said


async def test_f128_a_real_browser_on_wrong_pages_decides_nothing(
    browser: Browser, house: House
) -> None:
    token = house.token("fred")
    first, second = two_approvals(house, token)
    async with ceremonies(browser, house.site, house.stranger) as those:
        with house.http(token) as api:
            options = api.post("/v1/passkeys/registration-options").json()
            body = {"label": "browser", "credential": await those.create(options)}
            api.post("/v1/passkeys", json=body).raise_for_status()
            one, other = offered(api, first), offered(api, second)
            wrong = {
                "another origin": await those.elsewhere(one["options"]),
                "a frame": await those.framed(one["options"]),
                "nobody verified": await those.unverified(one["options"]),
                "another challenge": await those.get(other["options"]),
            }
            early = await those.get(one["options"])
            late = await those.get(other["options"])
            text = one["canonical"]
            said = {name: told(api, first, text, each) for name, each in wrong.items()}
            assert said == dict.fromkeys(wrong, "decision.signature")
            assert told(api, second, other["canonical"], late) == "approved"
            # The counter of the passkey has gone on, so whoever kept this one is late.
            assert told(api, first, text, early) == "decision.signature"
            assert told(api, first, text, await those.get(one["options"])) == "approved"
    client = json.loads(base64url.decode(wrong["a frame"]["response"]["clientDataJSON"]) or b"")
    assert (client["origin"], client["crossOrigin"]) == (house.site, True)
