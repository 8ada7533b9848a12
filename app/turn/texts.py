"""What the model is told in place of a result, and the reasons that only a turn gives people.

Every synthetic result is one compact JSON object (turn.md 9). Denials have fixed texts. None holds
a stack trace, a key, or what belongs to somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.json.text import compact_json
from app.policy.capability import in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.policy.capability import CapabilitySet

DENIED: Final = '{"approved":false,"error":"denied by human approver"}'
EXPIRED: Final = '{"approved":false,"error":"approval expired","reason":"expired"}'

DECLINED: Final = "They left it to you: use your judgement."
AUTO_RESOLVED: Final = "Nobody answered in time: use your judgement."
ACCEPTED: Final = '{"accepted":true}'

BEGINNING_FOLDED: Final = "(The beginning of this conversation is summarised above.)"
ASK_QUESTION: Final = "ask_question"
DELEGATE_TO: Final = "__delegate_to"
HANDOFF_TO: Final = "__handoff_to"
RESERVED: Final = frozenset({ASK_QUESTION, DELEGATE_TO, HANDOFF_TO})


def failure(code: str, error: str) -> str:
    """A synthetic error result."""
    return compact_json({"error": error, "code": code})


def unknown_tool(name: str) -> str:
    """The call names nothing that could run."""
    return failure("unknown_tool", f"There is no tool named {name!r}.")


def nobody_can_answer() -> str:
    """The call asks people where nobody is."""
    return failure("unknown_tool", "Nobody can answer questions here; go on without asking.")


def invalid_question(problem: str) -> str:
    """Nobody can be asked like this. Question errors have no code (turn.md 9)."""
    return compact_json({"error": f"Nobody was asked. Put it right and ask again: {problem}."})


def tools_now_available(name: str, found: Sequence[str]) -> str:
    """The hatch found what the model may have meant."""
    listed = ", ".join(found)
    return failure(
        "tools_now_available",
        f"There is no tool named {name!r}. These tools are available from now on: {listed}.",
    )


def malformed_arguments(name: str, defect: str) -> str:
    """The arguments have no canonical form."""
    return failure("malformed_arguments", f"The arguments of {name!r} are malformed: {defect}.")


def invalid_arguments(name: str, problems: Sequence[str]) -> str:
    """The arguments violate the tool's schema."""
    listed = "; ".join(problems)
    return failure("invalid_arguments", f"The arguments of {name!r} do not fit: {listed}.")


def denied_by_policy(reason: str) -> str:
    """A veto, in its own words."""
    return failure("denied_by_policy", reason)


def outside_ceiling(name: str, excess: CapabilitySet) -> str:
    """The agent may never do what the tool needs."""
    return failure("outside_ceiling", ceiling_reason(name, excess))


def ceiling_reason(name: str, excess: CapabilitySet) -> str:
    """Why a ceiling refuses, for the log as well."""
    listed = ", ".join(in_order(excess))
    return f"{name!r} requires {listed}, which this agent may never use."


def unattended_denied(name: str, missing: CapabilitySet) -> str:
    """Consent is needed and nobody is present."""
    needed = f" (missing: {', '.join(in_order(missing))})" if missing else ""
    return failure(
        "unattended_denied",
        f"{name!r} needs a person's consent{needed} and nobody is present; go on without it.",
    )


def outcome_unknown(name: str) -> str:
    """The call was started and its end is not known. Never says that the call did not run."""
    return failure(
        "outcome_unknown",
        f"{name!r} was started before and its outcome is unknown; its effect may have happened.",
    )


def rerun_reason(name: str) -> str:
    """Why a person is asked whether to run a started call again."""
    return (
        f"{name} was started before and its outcome is unknown: its effect may have happened."
        " Approving runs it again."
    )


def redefined_reason(name: str) -> str:
    """Why a person is asked again about a tool that is not the one they were shown."""
    return f"The definition of {name} has changed since this call was decided."


def unknown_delegate_target(target: str, known: Sequence[str]) -> str:
    """Nobody, or more than one, goes by that name."""
    listed = ", ".join(known)
    return failure(
        "unknown_delegate_target",
        f"{target!r} does not name one agent to delegate to. There are: {listed}.",
    )


def delegate_fanout_exceeded(limit: int) -> str:
    """The reply delegates more than may run at once."""
    return failure(
        "delegate_fanout_exceeded",
        f"At most {limit} delegations run at once; this one was not begun.",
    )


def delegate_budget_exceeded(limit: int) -> str:
    """The turn has delegated what it may."""
    return failure(
        "delegate_budget_exceeded",
        f"At most {limit} delegations are made before the next answer; this one was not begun.",
    )


def delegate_failed(target: str, error: str) -> str:
    """The worker came to no answer; `error` is the kind of its failure."""
    return failure("tool_failed", f"The agent {target!r} came to no answer: {error}.")


def cancelled() -> str:
    """The call never ran, and nobody will answer it any more."""
    return failure("cancelled", "cancelled before start")


def interrupted() -> str:
    """The call was in flight when its turn ended."""
    return failure("interrupted", "interrupted, effect unknown")


def tool_failed() -> str:
    """A tool raised. What it raised is nobody else's business."""
    return failure("tool_failed", "The tool failed.")


def result_withheld() -> str:
    """A redaction could not be recorded, so the model sees neither version."""
    return failure("result_withheld", "The result is withheld.")


def mutation_unrecorded() -> str:
    """A rewrite or an injection could not be recorded, so the call is refused."""
    return denied_by_policy("The call could not be recorded as policy demands, so it did not run.")


def not_executed() -> str:
    """The call stood beside one that ended the step, by an answer or by the lack of one."""
    return failure("cancelled", "Not executed: the same reply called the output tool.")


def answer_as_text(schema: Mapping[str, object]) -> str:
    """What the closing completion is told when the answer has a form."""
    return (
        "Answer now, with nothing but one JSON object that matches this JSON Schema: "
        + compact_json(schema)
    )


def edited(arguments: str) -> str:
    """What stands before the result of a call whose arguments an approver changed."""
    return f"The approver changed this call before it ran. Arguments used: {arguments}\n"


def cut_marker(size: int, artifact_id: str | None) -> str:
    """The end of a result that was too long for the model."""
    kept = f", kept whole as artifact {artifact_id}" if artifact_id else ""
    return f"\n[cut: {size} bytes in all{kept}]"
