"""What may be asked with `ask_question`: its spec, and the strict form of a call (turn.md 7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.trust.documents import match_model
from app.trust.refusal import Refused
from app.turn.limits import (
    CONSEQUENCE_CHARS,
    HEADER_CHARS,
    LABEL_CHARS,
    MAX_OPTIONS,
    MAX_QUESTIONS,
    MIN_OPTIONS,
    QUESTION_CHARS,
)
from app.turn.ports import ToolSpec
from app.turn.texts import ASK_QUESTION

if TYPE_CHECKING:
    from app.engine.json.arguments import Arguments

_DESCRIPTION: Final = (
    "Ask the people you work for, when you cannot go on without a choice that is theirs. The run"
    " waits until every question is answered. Options exclude each other. Do not add an option for"
    " anything else: people may always answer in their own words."
)


class _Member(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


def _at_most(chars: int) -> Any:
    return Field(min_length=1, max_length=chars, pattern=r"\S")


class QuestionOption(_Member):
    """One of the answers that may be chosen, and what choosing it leads to."""

    label: Annotated[str, _at_most(LABEL_CHARS)]
    consequence: Annotated[str, Field(max_length=CONSEQUENCE_CHARS)] = ""
    recommended: bool = False


class Question(_Member):
    """One question with its options, at most one of which is recommended."""

    header: Annotated[str, _at_most(HEADER_CHARS)]
    question: Annotated[str, _at_most(QUESTION_CHARS)]
    options: Annotated[list[QuestionOption], Field(min_length=MIN_OPTIONS, max_length=MAX_OPTIONS)]

    @field_validator("options")
    @classmethod
    def _exclusive(cls, options: list[QuestionOption]) -> list[QuestionOption]:
        labels = {option.label.strip().casefold() for option in options}
        if "other" in labels:
            raise ValueError('leave out "other": people may always answer in their own words')
        if len(labels) < len(options):
            raise ValueError("each option needs a label of its own")
        if sum(option.recommended for option in options) > 1:
            raise ValueError("at most one option may be recommended")
        return options


class _Asked(_Member):
    questions: Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS)]


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _text(chars: int, meaning: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": chars, "description": meaning}


def _list(of: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


_OPTION: Final = _object(
    ["label"],
    label=_text(LABEL_CHARS, "The answer, in a few words"),
    consequence=_text(CONSEQUENCE_CHARS, "What choosing it leads to"),
    recommended={"type": "boolean", "description": "True for at most one option"},
)
_QUESTION: Final = _object(
    ["header", "question", "options"],
    header=_text(HEADER_CHARS, "The subject, in a word"),
    question=_text(QUESTION_CHARS, "The question"),
    options=_list(_OPTION, MIN_OPTIONS, MAX_OPTIONS),
)
PARAMETERS: Final = _object(["questions"], questions=_list(_QUESTION, 1, MAX_QUESTIONS))

ASK_QUESTION_SPEC: Final = ToolSpec(
    name=ASK_QUESTION,
    description=_DESCRIPTION,
    parameters=PARAMETERS,
    title="Ask a question",
    definition_digest=sha256_hex(
        canonical_bytes(
            {
                "name": ASK_QUESTION,
                "description": _DESCRIPTION,
                "parameters": PARAMETERS,
            }
        )
    ),
)


def read_questions(args: Arguments) -> list[Question] | Refused:
    """The questions of a call, or what is wrong with them: a pointer and a sentence."""
    asked = match_model(_Asked, args.value)
    return asked if isinstance(asked, Refused) else asked.questions
