"""A headless Chromium, driven over the DevTools protocol; nothing is installed for it.

Pages are told apart by sessions on one socket. Waiting is done in the page: an expression is tried
again after each change of its document.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from websockets.asyncio.client import ClientConnection

PATIENCE_S: Final = 60.0
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--headless=new",
    # The tests may be run by root, whom Chromium gives no sandbox; it sees our own pages alone.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-port=0",
    "--window-size=1100,1400",
)
_LISTENS: Final = b"DevTools listening on "
# Tried again after each change of the document, for a DOM is all that a person could wait for.
_UNTIL: Final = """new Promise((resolve) => {
    const look = () => { const found = (%s); if (found) { watch.disconnect(); resolve(found); } };
    const watch = new MutationObserver(look);
    watch.observe(document, {
        subtree: true, childList: true, attributes: true, characterData: true });
    look();
})"""

needs_chromium = pytest.mark.skipif(
    not any(shutil.which(name) for name in NAMES), reason="there is no Chromium"
)


class PageError(Exception):
    """JavaScript threw, or the browser refused a command."""


@dataclass
class Browser:
    """The socket to the browser, and who waits for which answer."""

    socket: ClientConnection
    ids: Any = field(default_factory=lambda: count(1))
    awaited: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    """What the latest page logged: exceptions nobody caught, violations of its policy."""

    async def listen(self) -> None:
        async for message in self.socket:
            said = json.loads(message)
            if waiting := self.awaited.pop(said.get("id", 0), None):
                waiting.set_result(said)
            elif said.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(str(said["params"]["exceptionDetails"]))
            elif said.get("method") == "Log.entryAdded":
                entry = said["params"]["entry"]
                if entry["source"] == "security":
                    self.complaints.append(entry["text"])

    async def tell(self, method: str, *, session: str | None = None, **params: Any) -> Any:
        """One command and its result. Raises PageError."""
        ident = next(self.ids)
        self.awaited[ident] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": ident, "method": method, "params": params}
        await self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        async with asyncio.timeout(PATIENCE_S):
            answer = await self.awaited[ident]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    @asynccontextmanager
    async def page(self, url: str) -> AsyncIterator[Page]:
        """A page of its own storage, at an address."""
        context = (await self.tell("Target.createBrowserContext"))["browserContextId"]
        target = await self.tell("Target.createTarget", url="about:blank", browserContextId=context)
        ident = target["targetId"]
        attached = await self.tell("Target.attachToTarget", targetId=ident, flatten=True)
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await page.tell(f"{domain}.enable")
        self.complaints.clear()
        await page.go(url)
        try:
            yield page
        finally:
            await self.tell("Target.disposeBrowserContext", browserContextId=context)


@dataclass(frozen=True)
class Page:
    """One page. Expressions are JavaScript; promises are awaited."""

    browser: Browser
    session: str

    async def tell(self, method: str, **params: Any) -> Any:
        return await self.browser.tell(method, session=self.session, **params)

    async def go(self, url: str) -> None:
        """Load an address and wait for its modules."""
        await self.tell("Page.navigate", url=url)
        await self.value(
            f"new Promise((ok) => location.href === {json.dumps(url)} && "
            "document.readyState === 'complete' ? ok() : addEventListener('load', ok))"
        )

    async def value(self, expression: str, **where: Any) -> Any:
        """What an expression is, in a frame of its own if one is named. Raises PageError."""
        answer = await self.tell(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
            **where,
        )
        if thrown := answer.get("exceptionDetails"):
            raise PageError(thrown.get("exception", {}).get("description", thrown["text"]))
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:
        """What an expression is as soon as that is true."""
        return await self.value(_UNTIL % expression)

    async def text(self, selector: str) -> str:
        """The text of an element, once it is there."""
        return str(await self.until(f"document.querySelector({json.dumps(selector)})?.textContent"))

    async def fill(self, selector: str, text: str) -> None:
        """Write into a field as a person does, in one go."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.value(
            f"(() => {{ const field = document.querySelector({json.dumps(selector)});"
            f"field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input')); }})()"
        )

    async def click(self, selector: str) -> None:
        """Click on an element, once it is there and may be clicked."""
        found = f"document.querySelector({json.dumps(selector + ':not([disabled])')})"
        await self.until(found)
        await self.value(f"{found}.click()")

    async def authenticator(self) -> str:
        """A virtual authenticator whose user is there and is verified; its id."""
        await self.tell("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = await self.tell("WebAuthn.addVirtualAuthenticator", options=options)
        return str(made["authenticatorId"])


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Browser]:
    """A browser with a profile of its own, for the length of the block."""
    program = next(found for name in NAMES if (found := shutil.which(name)))
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={profile}",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        address = await _address(process)
        async with connect(address, max_size=None, proxy=None, ping_interval=None) as socket:
            browser = Browser(socket)
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(browser.listen())
                drained = tasks.create_task(_drain(process))
                yield browser
                listening.cancel()
                drained.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        async for line in process.stderr:
            if line.startswith(_LISTENS):
                return line.removeprefix(_LISTENS).decode().strip()
    raise AssertionError("Chromium ended before it listened")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    async for _ in process.stderr:
        pass
