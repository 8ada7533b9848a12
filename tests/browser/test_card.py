"""What the card shows and what is signed: text in which nothing hides, and nothing beside it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import needs_chromium
from tests.browser.visits import visit, writes
from tests.cli.test_visible import HIDING
from tests.trust.decisions import APPROVE
from tests.trust.signer import compact

if TYPE_CHECKING:
    from tests.browser.chromium import Browser
    from tests.browser.conftest import House

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), needs_chromium]

# Turns the line around, hides, closes the element it stands in, and passes for Latin letters.
HOSTILE = {
    "path": "invoice\u202efdp.exe",
    "content": "<img src=x onerror=alert(1)>\u200b p\u0430ypal cafe\u0301 </pre><script>",
}


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
