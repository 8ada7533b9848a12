"""Somebody before the page of docs/examples: signed in, with a passkey, and what they do there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.browser.chromium import Page
    from tests.browser.conftest import House


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
