"""What a text of a skill does not tell a run: tools it may not see and, if asked, people's data.

Framing is no redaction, so this happens before a text reaches a block or a result. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.runctx.skill import Skill, SkillBody, SkillView

UNAVAILABLE: Final = "a tool that is not available here"
PERSONAL: Final = "[REDACTED-PII]"
# Each repetition is bounded and no two neighbours share a character: no text takes long.
_PERSONAL: Final = re.compile(
    r"(?<=\?)[\w.~%+-]{1,256}=[^\s#\"'<>)\]]{0,2048}"
    r"|(?<=\b[Bb]earer )[\w.~+/=-]{8,4096}"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    r"|(?<![\w+])(?!\d{4}-\d\d-\d\d\b)"
    r"(?:\+\d{7,15}|\+?\(?\d{1,4}\)?(?:[ .()-]{1,2}\d{2,8}){2,5})(?!\w)"
)


@dataclass(frozen=True)
class Redaction:
    """What is taken out: the names of `hidden` tools and, with `personal`, what names people."""

    hidden: frozenset[str] = frozenset()
    personal: bool = False

    @cached_property
    def _names(self) -> re.Pattern[str] | None:
        if not self.hidden:
            return None
        longest_first = sorted(self.hidden, key=lambda name: (-len(name), name))
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def text(self, text: str) -> str:
        """The text without what it must not tell."""
        if self._names is not None:
            text = self._names.sub(UNAVAILABLE, text)
        return _PERSONAL.sub(PERSONAL, text) if self.personal else text

    def skill(self, skill: Skill) -> Skill:
        """The skill with every text of it redacted; its name is what it is called by."""
        head = skill.card.head
        told = replace(head, title=self.text(head.title), trigger=self.text(head.trigger))
        return replace(skill, card=replace(skill.card, head=told), body=self._body(skill.body))

    def view(self, view: SkillView) -> SkillView:
        """The entry of a directory, redacted likewise."""
        return replace(view, title=self.text(view.title), trigger=self.text(view.trigger))

    def _body(self, body: SkillBody) -> SkillBody:
        return replace(
            body,
            description=self.text(body.description),
            steps=self._texts(body.steps),
            preconditions=self._texts(body.preconditions),
            failure_modes=self._texts(body.failure_modes),
        )

    def _texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.text, texts))
