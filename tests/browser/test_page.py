"""docs/examples in a real browser: a passkey, a run, its card, the signature, the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import needs_chromium
from tests.cli.test_visible import HIDING
from tests.support.tampered_wire import Cut, tampered_wire
from tests.trust.decisions import APPROVE
from tests.trust.signer import compact

if TYPE_CHECKING:
    from tests.browser.chromium import Browser, Page
    from tests.browser.conftest import House
    from tests.support.tampered_wire import Passing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

# Turns the line around, hides, closes the element it stands in, and passes for Latin letters.
HOSTILE = {
    "path": "invoice\u202efdp.exe",
    "content": "<img src=x onerror=alert(1)>\u200b p\u0430ypal cafe\u0301 </pre><script>",
}

EDITED = '{"content":"y","path":"b.txt"}'


def writes(args: dict[str, Any]) -> str:
    """A program that writes a file and says so."""
    return f"call files_write {json.dumps(args, ensure_ascii=False)}\n---\nsay Written."


@dataclass(frozen=True)
class Visit:
    """Somebody before the page, with a passkey."""

    page: Page
    house: House
    token: str
    authenticator: str

    @property
    def run(self) -> Any:
        return self.page.text("#run-id")

    async def starts(self, program: str) -> None:
        """Start a run and wait until its card may be decided."""
        await self.page.fill("#input", program)
        await self.page.click("#run button")
        await self.page.until("document.querySelector('.card .approve')")

    async def signs(self, decision: str) -> None:
        await self.page.click(f".card .{decision}")
        await self.page.click(".card .sign")

    async def ends(self) -> str:
        """The answer, once there is one."""
        return await self.page.text(".answer")

    async def happened(self, kind: str) -> list[dict[str, Any]]:
        """The data of the run's events of a type."""
        events = self.house.events(self.token, await self.run)
        return [event["data"] for event in events if event["type"] == kind]


async def visit(page: Page, house: House, sub: str, *, url: str | None = None) -> Visit:
    """Sign in and register a passkey."""
    token = house.token(sub)
    authenticator = await page.authenticator()
    await page.fill("#url", url or house.url)
    await page.fill("#token", token)
    await page.click("#sign-in button")
    await page.click("#register")
    await page.until("document.querySelector('#passkeys li')")
    return Visit(page, house, token, authenticator)


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
        assert (await page.text("#status"), await page.text("#connection")) == (
            "completed",
            "ended",
        )
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


async def test_f80_hostile_arguments_are_text_and_hide_nothing(
    browser: Browser, house: House
) -> None:
    """F80: escapes stand for what hides and for look-alikes, wherever they are shown."""
    async with browser.page(f"{house.site}/index.html") as page:
        one = await visit(page, house, "dora")
        await one.starts(writes(HOSTILE))
        shown = await page.text(".card .args")
        await one.signs("approve")
        await one.ends()
        story = await page.text("#story")
        made = await page.value("document.querySelectorAll('#story :is(img, script)').length")
        [started] = await one.happened("tool.started")
    assert shown == (
        '{"content":"<img src=x onerror=alert(1)>\\u200b p\\u0430ypal cafe\\u0301 </pre><script>",'
        '"path":"invoice\\u202efdp.exe"}'
    )
    assert not set(story) & set("\u202e\u200b\u0301")
    assert made == 0
    assert started["args_sha256"] == digest_of(HOSTILE)
    assert browser.complaints == []


def digest_of(args: dict[str, str]) -> str:
    """The digest of arguments whose canonical form is what Python writes of them sorted."""
    text = json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


async def test_f80_a_word_composed_and_decomposed_has_two_digests_here_too(
    browser: Browser, house: House
) -> None:
    async with browser.page(f"{house.site}/index.html") as page:
        composed, decomposed = [
            await page.value(
                f"import('/deciding.js').then(({{ digest }}) => digest({json.dumps(word)}))"
            )
            for word in ("caf\u00e9", "cafe\u0301")
        ]
    assert composed == sha256("caf\u00e9".encode()).hexdigest()
    assert decomposed == sha256("cafe\u0301".encode()).hexdigest()
    assert composed != decomposed


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
    url = f"{house.stranger}/style.css"
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


async def test_f80_the_page_hides_no_more_than_the_command_line(
    browser: Browser, house: House
) -> None:
    """F80: beyond that, marks that merge and letters that pass for Latin ones are escapes."""
    texts = {f"a{character}b": f"a{shown}b" for character, shown in HIDING.items()}
    texts |= {
        text: text for text in ("a b", "\u017elu\u0165", "\u6f22a \U0001f600", "\u0430\u0431")
    }
    texts |= {"e\u0301": "e\\u0301", "p\u0430y": "p\\u0430y", "\u03bfk": "\\u03bfk"}
    async with browser.page(f"{house.site}/index.html") as page:
        shown = await page.value(
            "import('/visible.js').then(({ visible }) => "
            f"{json.dumps(list(texts))}.map((text) => "
            "visible(text).map((part) => part.text).join('')))"
        )
    assert shown == list(texts.values())


ARGS = '{"body":"{}","url":"http://127.0.0.1:9000/orders"}'
APPROVAL = APPROVE | {
    "id": APPROVE["approval_id"],
    "args_canonical": ARGS,
    "args_sha256": sha256(ARGS.encode()).hexdigest(),
    "missing_capabilities": APPROVE["covered_capabilities"],
}
PAYLOAD = APPROVE | {"args_sha256": APPROVAL["args_sha256"]}
FORGED: dict[str, dict[str, Any]] = {
    name: {name: "another"}
    for name in (
        *("approval_id", "run_id", "conversation_id", "turn_id", "request_id", "tool"),
        *("tool_definition_digest", "args_sha256", "decision", "override_args", "note", "reason"),
        *("scope", "sandbox_mode", "covered_capabilities", "typ"),
    )
}


async def test_f105_nothing_is_signed_that_was_not_shown(browser: Browser, house: House) -> None:
    """Whatever the service proposes beside what was shown and asked for is refused, by name."""
    sound = compact(PAYLOAD).decode()
    texts = {name: compact(PAYLOAD | change).decode() for name, change in FORGED.items()}
    texts |= {"not canonical": sound[:-1] + ',"tool":"http_post"}', "what was shown": sound}
    given = json.dumps([APPROVAL, {"decision": "approve"}, texts])
    async with browser.page(f"{house.site}/index.html") as page:
        said = await page.value(
            f"""(async ([approval, wanted, texts]) => {{
                const {{ checked }} = await import('/deciding.js');
                const said = {{}};
                for (const [name, text] of Object.entries(texts))
                    said[name] = await checked(approval, wanted, text).then(
                        () => 'signed', (error) => error.message);
                said['other arguments'] = await checked(
                    {{ ...approval, args_canonical: '{{}}' }}, wanted, texts['what was shown']
                ).then(() => 'signed', (error) => error.message);
                return said;
            }})({given})"""
        )
    assert said.pop("what was shown") == "signed"
    assert "digest" in said.pop("other arguments")
    assert [name for name, text in said.items() if name not in text] == []
