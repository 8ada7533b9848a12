"""What a model call cost and why it ended."""

from __future__ import annotations

from typing import Literal

from app.engine.value import Count, Value

FinishKind = Literal["stop", "length", "tool_calls", "content_filter", "failed", "other"]


class Usage(Value):
    """Tokens of one or more model calls. All zero means "not reported", not "free"."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    total_tokens: Count = 0
    cached_input_tokens: Count = 0
    cache_creation_input_tokens: Count = 0
    tool_use_prompt_tokens: Count = 0
    reasoning_tokens: Count = 0

    def __add__(self, other: Usage) -> Usage:
        """The sum per field."""
        return Usage(
            **{field: getattr(self, field) + getattr(other, field) for field in Usage.model_fields}
        )


class FinishReason(Value):
    """Why a model call ended, with the provider's own word for it."""

    kind: FinishKind
    detail: str | None = None

    @property
    def truncates(self) -> bool:
        """Whether the answer was cut before the model was done."""
        return self.kind in {"length", "content_filter"}
