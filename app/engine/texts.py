"""The fixed texts the engine writes into a conversation, exactly as agent-run.md 2.6 has them."""

from __future__ import annotations

from typing import Final

NOT_EXECUTED: Final = "Not executed: another tool call in the same turn was invalid."
INTERRUPTED: Final = "Not completed: the run stopped before this tool call returned a result."


def malformed(name: str, error: str) -> str:
    """`MALFORMED`: what the model reads about arguments that were no JSON object."""
    return (
        f"The arguments of tool `{name}` were not a JSON object: {error}. "
        f"Call `{name}` again with a JSON object as its arguments."
    )


def output_text(tool: str) -> str:
    """`OUTPUT_TEXT`: the answer came as text where the output tool was wanted."""
    return (
        f"Give the final answer by calling the `{tool}` tool with the structured result as its "
        "arguments, not as plain text."
    )


def output_feedback(tool: str, *, missing: tuple[str, ...], problems: tuple[str, ...]) -> str:
    """`OUTPUT_MISSING` and `OUTPUT_PROBLEMS` as they apply, then `OUTPUT_AGAIN`."""
    sentences = []
    if missing:
        sentences.append(
            f"The arguments of `{tool}` are missing required field(s): {', '.join(missing)}."
        )
    if problems:
        sentences.append(
            f"The arguments of `{tool}` do not match the schema: {'; '.join(problems)}."
        )
    sentences.append(f"Call `{tool}` again with corrected arguments.")
    return " ".join(sentences)
