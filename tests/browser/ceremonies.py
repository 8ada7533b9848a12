"""WebAuthn ceremonies of a real browser, right and wrong ones, for tests and for recordings."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.browser.chromium import Browser, Page

_CREATE: Final = """navigator.credentials.create({
    publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(%s)
}).then((credential) => credential.toJSON())"""
_GET: Final = """navigator.credentials.get({
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(%s)
}).then((credential) => credential.toJSON())"""
_FRAME: Final = """new Promise((ok) => {
    const frame = document.createElement('iframe');
    frame.allow = 'publickey-credentials-get *';
    frame.src = %s;
    frame.onload = () => ok(true);
    document.body.append(frame);
})"""
# Any file will do that has no policy of its own.
_BLANK: Final = "/style.css"


@dataclass(frozen=True)
class Ceremonies:
    """One person's authenticator, before pages of the allowed site and of a stranger's."""

    page: Page
    site: str
    stranger: str
    authenticator: str

    async def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """A new credential."""
        made: dict[str, Any] = await self.page.value(_CREATE % json.dumps(options))
        return made

    async def get(self, options: dict[str, Any], **where: Any) -> dict[str, Any]:
        """An assertion."""
        made: dict[str, Any] = await self.page.value(_GET % json.dumps(options), **where)
        return made

    async def unverified(self, options: dict[str, Any]) -> dict[str, Any]:
        """An assertion by somebody who only touched the authenticator, asked for by a lax page."""
        whose = {"authenticatorId": self.authenticator}
        await self.page.tell("WebAuthn.setUserVerified", isUserVerified=False, **whose)
        made = await self.get(options | {"userVerification": "discouraged"})
        await self.page.tell("WebAuthn.setUserVerified", isUserVerified=True, **whose)
        return made

    async def elsewhere(self, options: dict[str, Any]) -> dict[str, Any]:
        """An assertion on a page of another origin under the same domain."""
        await self.page.go(self.stranger + _BLANK)
        made = await self.get(options)
        await self.page.go(self.site + _BLANK)
        return made

    async def framed(self, options: dict[str, Any]) -> dict[str, Any]:
        """An assertion on a page of the allowed site within one of another origin."""
        await self.page.go(self.stranger + _BLANK)
        await self.page.value(_FRAME % json.dumps(self.site + _BLANK))
        tree = (await self.page.tell("Page.getFrameTree"))["frameTree"]
        world = await self.page.tell(
            "Page.createIsolatedWorld", frameId=tree["childFrames"][0]["frame"]["id"]
        )
        made = await self.get(options, contextId=world["executionContextId"])
        await self.page.go(self.site + _BLANK)
        return made


@asynccontextmanager
async def ceremonies(browser: Browser, site: str, stranger: str) -> AsyncIterator[Ceremonies]:
    """A page of the allowed site, with an authenticator."""
    async with browser.page(site + _BLANK) as page:
        yield Ceremonies(page, site, stranger, await page.authenticator())
