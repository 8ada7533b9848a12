"""A skill as it is written over HTTP: its members and their bounds (run-context.md 6).

Whoever may write skills speaks for the operator. What a program generated is untrusted unless its
writer vouches for it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from app.policy.taint import Trust
from app.runctx.skill import NewSkill, SkillBody, SkillHead, SkillOrigin, SkillScope
from app.runctx.skills.archive import MAX_FILES, is_sound_path
from app.service.agents.spec import Member
from app.service.members import Metadata, require_written

MAX_STEPS: Final = 200


def _path(path: str) -> str:
    if not is_sound_path(path):
        raise ValueError("must be the relative path of a file")
    return path


Line = Annotated[str, Field(max_length=1024)]
WrittenLine = Annotated[Line, Field(min_length=1), AfterValidator(require_written)]
Passage = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(require_written)]
Words = Annotated[list[WrittenLine], Field(max_length=100)]
Passages = Annotated[list[Passage], Field(max_length=MAX_STEPS)]
Path = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_path)]


class SkillSpec(Member):
    """A skill. `files` are texts by path; `conversation_id` says where scope `session` sees it.

    A null `trust` is `quarantined_content` for a generated skill and `trusted_user` for any other.
    """

    trigger: WrittenLine
    steps: Annotated[Passages, Field(min_length=1)]
    origin: SkillOrigin
    scope: SkillScope
    title: Line = ""
    description: Annotated[str, Field(max_length=8192)] = ""
    task_type: Line = ""
    tags: Words = Field(default_factory=list)
    required_tools: Words = Field(default_factory=list)
    required_namespaces: Words = Field(default_factory=list)
    required_tags: Words = Field(default_factory=list)
    preconditions: Passages = Field(default_factory=list)
    failure_modes: Passages = Field(default_factory=list)
    extra: Metadata = Field(default_factory=dict)
    files: dict[Path, str] = Field(default_factory=dict, max_length=MAX_FILES)
    trust: Literal["trusted_user", "quarantined_content"] | None = None
    conversation_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None

    def skill(self, name: str) -> NewSkill:
        """The skill under its name."""
        head = SkillHead(
            name=name,
            trigger=self.trigger,
            origin=self.origin,
            scope=self.scope,
            title=self.title,
            task_type=self.task_type,
            tags=tuple(self.tags),
            required_tools=tuple(self.required_tools),
            required_namespaces=tuple(self.required_namespaces),
            required_tags=tuple(self.required_tags),
            extra=self.extra,
        )
        body = SkillBody(
            description=self.description,
            steps=tuple(self.steps),
            preconditions=tuple(self.preconditions),
            failure_modes=tuple(self.failure_modes),
        )
        return NewSkill(
            head=head,
            body=body,
            files={path: text.encode() for path, text in self.files.items()},
            trust=self._trust,
            conversation_id=self.conversation_id,
        )

    @property
    def _trust(self) -> Trust:
        if self.trust is not None:
            return Trust.from_wire(self.trust)
        is_generated = self.origin == "generated"
        return Trust.QUARANTINED_CONTENT if is_generated else Trust.TRUSTED_USER
