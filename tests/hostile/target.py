"""An application with something of every kind in it, and an attacker with every scope."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import httpx

from app.service.caller import SCOPES
from tests.support.api.driver import ApiDriver
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.hostile.description import Operation
    from tests.support.api.world import ApiWorld, Person

QUESTION: Final = {
    "header": "When",
    "question": "When?",
    "options": [{"label": "a"}, {"label": "b"}],
}
PROGRAM: Final = "\n".join(
    (
        f"call ask_question {json.dumps({'questions': [QUESTION]})}",
        'call http_post {"url":"http://127.0.0.1:9/","body":"{}"}',
    )
)


NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Target:
    """The application, who attacks it, and the ids that lead to something."""

    world: ApiWorld
    attacker: Person
    known: dict[str, str]

    @staticmethod
    async def furnished(world: ApiWorld) -> Target:
        """An agent, a run that waits for a decision and an answer, a key, a file, a skill."""
        mallory = world.person("mallory", scopes=tuple(sorted(SCOPES)), roles=("approver",))
        name = await mallory.agent(tools=["ask_question", "http_post"])
        run = await ApiDriver.of(world).until_idle(mallory, await mallory.run(input=PROGRAM))
        conversation = run["conversation_id"]
        upload = f"/v1/artifacts?conversation_id={conversation}"
        file = await mallory.post(upload, b"text", Content_Type="text/plain")
        known = {
            "name": name,
            "sub": "nobody",
            "tool": "http_post",
            "seq": "1",
            "run_id": run["id"],
            "conversation_id": conversation,
            "approval_id": run["pause"]["approvals"][0]["id"],
            "question_id": run["pause"]["questions"][0]["id"],
            "artifact_id": file.json()["id"],
            "key_id": await mallory.key(Signer.of(9)),
        }
        return Target(world, mallory, known)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, bytes] = NO_HEADERS,
    ) -> httpx.Response:
        """One request, sent as it is; the attacker's token goes along unless there is another."""
        token = f"Bearer {self.attacker.token}".encode()
        sent = {"Authorization": token} | dict(headers)
        pairs = [(name.encode(), value) for name, value in sent.items()]
        # Neither escapes nor dots are put right on the way.
        url = httpx.URL(scheme="http", host="turngate.test", raw_path=path.encode())
        return await self.world.http.request(method, url, content=body, headers=pairs)

    def segments(self, operation: Operation) -> dict[str, str]:
        """The ids that lead to something; what a request would take away is not there."""
        if operation.method == "DELETE":
            return {}
        return {name: self.known[name] for name in operation.segments if name in self.known}

    async def is_well(self) -> bool:
        """Whether the service still does its work for somebody else."""
        bob: Any = self.world.person("bob")
        await bob.agent("sound")
        run = await ApiDriver.of(self.world).until_idle(bob, await bob.run("sound"))
        ready = await self.world.http.get("/readyz")
        return bool(run["status"] == "completed" and ready.status_code == 200)
