"""docs/examples in a real browser: a passkey, a run, its card, the signature, the answer."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import needs_chromium
from tests.browser.conftest import numbered
from tests.browser.visits import visit, writes
from tests.support.loopback.tampered_wire import Cut, tampered_wire

if TYPE_CHECKING:
    from tests.browser.chromium import Browser
    from tests.browser.conftest import House
    from tests.support.loopback.tampered_wire import Passing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

EDITED = '{"content":"y","path":"b.txt"}'


async def test_what_is_approved_with_a_passkey_runs_once(browser: Browser, house: House) -> None:
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "anna")
        await one.starts(writes({"path": "a.txt", "content": "x"}))
        assert await page.text(".card .args") == '{"content":"x","path":"a.txt"}'
        await page.click(".card .approve")
        canonical = await page.text(".card .canonical")
        shown = await page.text(".card footer .digest")
        assert shown == f"SHA-256 {sha256(canonical.encode()).hexdigest()}"
        await page.click(".card .sign")
        assert await one.ends() == "Written."
        assert await page.text("#status") == "completed"
        await page.until("document.querySelector('#connection').textContent === 'ended'")
        [started] = await one.happened("tool.started")
        [decided] = await one.happened("approval.decided")
    assert started["args_sha256"] == sha256(b'{"content":"x","path":"a.txt"}').hexdigest()
    assert (decided["assurance"], decided["decision"]) == ("passkey", "approve")
    assert browser.complaints == []


async def test_what_is_denied_does_not_run(browser: Browser, house: House) -> None:
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "bert")
        await one.starts(writes({"path": "a.txt", "content": "x"}))
        await page.fill(".card input", "not today")
        await one.signs("deny")
        assert await page.text(".card .verdict.denied")
        assert await one.ends() == "Written."
        assert await one.happened("tool.started") == []
        [settled] = await one.happened("tool.settled")
        [asked] = await one.happened("approval.requested")
    assert settled["outcome"] == "denied"
    with house.http(one.token) as api:
        [decision] = api.get(f"/v1/approvals/{asked['id']}").json()["decisions"]
    assert (decision["decision"], decision["note"]) == ("deny", "not today")


async def test_what_is_edited_runs_as_edited(browser: Browser, house: House) -> None:
    """The field spells what hides, so an edit is not made around it."""
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "cleo")
        await one.starts(writes({"path": "a\u202eb", "content": "x"}))
        await page.click(".card .edit-toggle")
        field = await page.value("document.querySelector('.card .edit').value")
        assert json.loads(field) == {"path": "a\u202eb", "content": "x"}
        assert field.isascii()
        await page.fill(".card .edit", '{"path": "b.txt", "content": "y"}')
        await page.click(".card .approve")
        assert await page.text(".card .effective") == EDITED
        # Whoever goes back finds what they wrote.
        await page.click(".card .back")
        await page.click(".card .approve")
        assert await page.text(".card .effective") == EDITED
        await page.click(".card .sign")
        await one.ends()
        [started] = await one.happened("tool.started")
    assert started["args_sha256"] == sha256(EDITED.encode()).hexdigest()


async def test_a_user_who_is_not_verified_signs_nothing(browser: Browser, house: House) -> None:
    """The browser refuses, and says so on the card; verified again, the user may go on."""
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "emil")
        await one.starts(writes({"path": "a.txt", "content": "x"}))
        whose = {"authenticatorId": one.authenticator}
        await page.tell("WebAuthn.setUserVerified", isUserVerified=False, **whose)
        await one.signs("approve")
        assert "NotAllowedError" in await page.text(".card .notice.bad")
        assert await one.happened("approval.decided") == []
        await page.tell("WebAuthn.setUserVerified", isUserVerified=True, **whose)
        await page.click(".card .sign")
        assert await one.ends() == "Written."


async def test_in_a_frame_the_page_shows_nothing(browser: Browser, house: House) -> None:
    async with browser.page(f"{house.stranger}/style.css") as page:
        hidden = await page.value(
            "new Promise((ok) => { const frame = document.createElement('iframe');"
            "frame.src = '/index.html'; document.body.append(frame);"
            "frame.onload = () => ok(frame.contentDocument.body.hidden); })"
        )
    assert hidden is True


async def test_the_card_tells_what_is_missing_and_where_the_taint_came_from(
    browser: Browser, house: House
) -> None:
    url = f"http://{numbered(house.stranger)}/style.css"
    post = json.dumps({"url": "https://shop.example/orders", "body": "{}"})
    program = f'call http_fetch {{"url":"{url}"}}\n---\ncall http_post {post}\n---\nsay ok'
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "gina")
        with house.http(one.token) as api:
            spec = {"model": "script", "tools": ["http_fetch", "http_post"]}
            api.put("/v1/agents/buyer", json=spec).raise_for_status()
        await page.fill("#agent", "buyer")
        await one.starts(program)
        facts = await page.text(".card dl")
        missing = await page.value(
            "[...document.querySelectorAll('.chip.missing')].map((chip) => chip.textContent)"
        )
        await one.signs("deny")
        await one.ends()
        [asked] = await one.happened("approval.requested")
    assert missing == ["arbitrary-egress", "mutate-external"]
    assert f"events {asked['tainted_by'][0]}" in facts
    assert "Goes toshop.example" in facts


async def test_f63_the_page_tells_a_lost_connection_from_a_run_that_waits(
    browser: Browser, house: House
) -> None:
    """F63: the status is asked of the run; the decision and the rest come over a new socket."""
    is_cut = False

    async def spoil(frame: Passing) -> list[bytes]:
        if is_cut:
            raise Cut
        return [frame.raw]

    async with (
        tampered_wire(house.port, spoil) as wire,
        browser.page(f"{house.site}/index.html") as page,
    ):
        one = await visit(page, house, "hugo", url=f"http://127.0.0.1:{wire.port}")
        await one.starts(writes({"path": "a.txt", "content": "x"}))
        await page.until("document.querySelector('#connection').textContent === 'live'")
        is_cut = True
        wire.abort(*wire.ends)
        lost = (
            "document.querySelector('#connection').textContent === 'connection lost, coming back'"
        )
        await page.until(lost)
        assert await page.text("#status") == "paused"
        is_cut = False
        await page.until("document.querySelector('#connection').textContent === 'live'")
        await one.signs("approve")
        assert await one.ends() == "Written."
        assert len(await one.happened("tool.started")) == 1


async def test_f64_a_page_that_remembers_nothing_finds_what_waits(
    browser: Browser, house: House
) -> None:
    """F64: after a reload the approval is found, its run watched, and the decision taken."""
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "ines")
        await one.starts(writes({"path": "a.txt", "content": "x"}))
        await page.go(f"{house.site}/style.css")
        await page.go(f"{house.site}/index.html")
        await page.fill("#url", house.url)
        await page.fill("#token", one.token)
        await page.click("#sign-in button")
        await page.click("#waiting button")
        await one.signs("approve")
        assert await one.ends() == "Written."


async def test_a_service_that_does_not_allow_the_page_is_told_as_such(
    browser: Browser, house: House
) -> None:
    async with browser.page(f"{house.stranger}/index.html") as page:
        await page.fill("#url", house.url)
        await page.fill("#token", house.token("jane"))
        await page.click("#sign-in button")
        told = await page.text(".complaint")
    assert f"does it allow pages of {house.stranger}" in told
