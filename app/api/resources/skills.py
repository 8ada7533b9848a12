"""Skills: put, read, list, delete, and the import of Agent Skills folders (run-context.md 6)."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from fastapi import Response
from pydantic import JsonValue
from starlette.requests import Request
from typing_extensions import override

from app.api.bodies import read_body
from app.api.edge import BODY_BYTES, Call, Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, is_time_key, page_of, time_key
from app.api.problems import MediaTypeRefused
from app.api.routes import Endpoint, Routes, WriteRoute
from app.api.wire import Document, Time
from app.log.envelope import wire_time
from app.runctx.mime import OCTETS, media_type
from app.runctx.skill import Skill as KeptSkill
from app.runctx.skill import SkillCard, SkillOrigin, SkillScope
from app.runctx.skills.archive import skills_in
from app.runctx.skills.folder import SKILL_NAME, FolderDefect
from app.service.refusals import FieldFault, RequestInvalid, SkillImportInvalid
from app.service.skills.spec import SkillSpec

routes = Routes(tags=["skills"])

ZIP: Final = "application/zip"
_ZIP_TYPES: Final = frozenset({ZIP, "application/x-zip-compressed", OCTETS})
_UNPACKED: Final = "turngate.unpacked"
_NAME: Final = re.compile(SKILL_NAME)
# Generators of clients know octets and no zip, so the description names what both sides take.
_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
}


class SkillSummary(Document):
    """A skill without its text. `revision` is that of the catalogue when it was last changed."""

    name: str
    title: str
    trigger: str
    task_type: str
    tags: list[str]
    origin: SkillOrigin
    scope: SkillScope
    conversation_id: str | None
    trust: str
    digest: str
    revision: int
    created_at: Time
    updated_at: Time


class SkillFile(Document):
    """A file of a skill; `skill_get` reads it."""

    path: str
    size_bytes: int


class Skill(SkillSummary):
    """A skill with its text."""

    description: str
    steps: list[str]
    preconditions: list[str]
    failure_modes: list[str]
    required_tools: list[str]
    required_namespaces: list[str]
    required_tags: list[str]
    extra: dict[str, JsonValue]
    files: list[SkillFile]


class SkillList(Document):
    """A page of skills, newest first."""

    items: list[SkillSummary]
    next_cursor: str | None


class ImportedSkills(Document):
    """The skills of an import as they are now; one that was there already kept its revision."""

    items: list[SkillSummary]


class ImportRoute(WriteRoute):
    """Its body is a zip, unpacked before the transaction begins."""

    @override
    async def read(self, request: Request, *, takes_body: bool) -> tuple[bytes, JsonValue]:
        """The bytes as they came. Raises MediaTypeRefused, BodyTooLarge."""
        if media_type(request.headers.get("content-type", "")) not in _ZIP_TYPES:
            raise MediaTypeRefused(f"the body must have Content-Type {ZIP}")
        return await read_body(request, BODY_BYTES), None

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Unpack, then answer the request within one transaction. Raises SkillImportInvalid."""
        raw = await request.body()
        try:
            request.scope[_UNPACKED] = await asyncio.to_thread(skills_in, raw)
        except FolderDefect as defect:
            detail = f"{repr(defect.entry) if defect.entry else 'the body'} {defect}"
            raise SkillImportInvalid(detail, faults=(FieldFault("", detail),)) from None
        return await super().serve(request, call, endpoint)


@routes.write(
    "POST",
    "/v1/skills/import",
    "import_skills",
    scope="skills:write",
    kind=ImportRoute,
    openapi_extra={"requestBody": _BODY},
)
async def import_skills(call: Writing, request: Request) -> ImportedSkills:
    """Import a zip of Agent Skills folders, all of them or none."""
    kept = await call.edge.skills.add_all(call.tx, call.caller, request.scope[_UNPACKED])
    return ImportedSkills(items=[SkillSummary(**_summary(skill.card)) for skill in kept])


@routes.write(
    "PUT",
    "/v1/skills/{name}",
    "put_skill",
    scope="skills:write",
    responses={201: {"model": Skill, "description": "There was no skill of this name before"}},
)
async def put_skill(call: Writing, name: str, body: SkillSpec, response: Response) -> Skill:
    """Create a skill, or replace it whole; runs that have begun keep the one they began with."""
    if _NAME.fullmatch(name) is None:
        fault = FieldFault("/path/name", f"expected {SKILL_NAME}")
        raise RequestInvalid("a skill cannot have this name", faults=(fault,))
    kept, is_created = await call.edge.skills.put(call.tx, call.caller, body.skill(name))
    response.status_code = 201 if is_created else 200
    return _skill_document(kept)


@routes.read("/v1/skills", "list_skills", scope="tools:read")
async def list_skills(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> SkillList:
    """The tenant's skills and one's own, newest first; of each name the nearest."""
    page = page_of(limit, cursor, is_sound=is_time_key)
    found = await call.edge.skills.page(call.session, call.caller, page)
    shown, more = cut_page(found, limit, _skill_key)
    return SkillList(items=[SkillSummary(**_summary(card)) for card in shown], next_cursor=more)


@routes.read("/v1/skills/{name}", "get_skill", scope="tools:read")
async def get_skill(call: Reading, name: str) -> Skill:
    """One skill; one's own before everybody's."""
    return _skill_document(await call.edge.skills.read(call.session, call.caller, name))


@routes.write("DELETE", "/v1/skills/{name}", "delete_skill", scope="skills:write", status_code=204)
async def delete_skill(call: Writing, name: str) -> None:
    """Delete one's own skill of this name, or else everybody's; runs that have begun keep it."""
    await call.edge.skills.delete(call.tx, call.caller, name)


def _skill_document(skill: KeptSkill) -> Skill:
    """How a skill is shown."""
    head, body = skill.card.head, skill.body
    return Skill(
        **_summary(skill.card),
        description=body.description,
        steps=list(body.steps),
        preconditions=list(body.preconditions),
        failure_modes=list(body.failure_modes),
        required_tools=list(head.required_tools),
        required_namespaces=list(head.required_namespaces),
        required_tags=list(head.required_tags),
        extra=dict(head.extra),
        files=[SkillFile(path=path, size_bytes=size) for path, size in sorted(skill.files.items())],
    )


def _summary(card: SkillCard) -> dict[str, Any]:
    head = card.head
    return {
        "name": head.name,
        "title": head.title,
        "trigger": head.trigger,
        "task_type": head.task_type,
        "tags": list(head.tags),
        "origin": head.origin,
        "scope": head.scope,
        "conversation_id": card.conversation_id,
        "trust": card.trust.wire,
        "digest": card.digest,
        "revision": card.revision,
        "created_at": wire_time(card.created_at),
        "updated_at": wire_time(card.updated_at),
    }


def _skill_key(card: SkillCard) -> str:
    return time_key(card.created_at, card.name)
