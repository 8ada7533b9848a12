"""What people are shown and what they say: cards, signed decisions, answers, standing consents.

Every decision is signed as an approver's client signs it and verified before it counts, and a turn
is given what the signed bytes say.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from app.policy.capability import Capability, CapabilitySet
from app.policy.grants import RememberedGrant, SessionApproval
from app.trust.decision import ReadDecision, VerifiedDecision, read_decision, verify_decision
from app.turn.options import ApprovalDecision, ApprovalOverride, VerifiedAnswer
from tests.trust.decisions import APPROVE, KEY, signed

if TYPE_CHECKING:
    from app.trust.decision import DecisionPayload
    from app.turn.options import Identity
    from app.turn.result import PendingApproval, PendingQuestion

GRANTED: Final = frozenset({Capability.ARBITRARY_EGRESS})
Live = Literal["live", "revoked", "revoked since", "expired"]


@dataclass(slots=True)
class Card:
    """One request for one person's answer, and the answer.

    `asked_at` is how long the log was, `starts` how often the call had been started by then. A card
    is `over` when it can be answered no more: another took its place, or a session approval served.
    """

    approval_id: str
    pending: PendingApproval
    turn_id: str
    starts: int
    asked_at: int
    said: ApprovalDecision | None = None
    over: bool = False

    @property
    def call_id(self) -> str:
        return self.pending.call_id

    @property
    def effective(self) -> str:
        """The canonical arguments that were let run."""
        edit = self.said.override if self.said is not None else None
        return (edit.modified_args_json if edit else "") or self.pending.args_json


@dataclass(slots=True)
class Grant:
    """A remembered grant for one tool, and what became of it."""

    ref: str
    covered: CapabilitySet
    state: Live = "live"


@dataclass(slots=True)
class People:
    """Everybody who may be asked, and all they ever said. It is also the register of grants."""

    cards: list[Card] = field(default_factory=list)
    answers: list[VerifiedAnswer] = field(default_factory=list)
    questions: list[PendingQuestion] = field(default_factory=list)
    sessions: dict[str, SessionApproval] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    @property
    def decided(self) -> dict[str, ApprovalDecision]:
        """Everything that was ever decided, by approval id."""
        return {card.approval_id: card.said for card in self.cards if card.said is not None}

    def card_of(self, approval_id: str) -> Card:
        return next(card for card in self.cards if card.approval_id == approval_id)

    def open_card(self, call_id: str) -> Card | None:
        """The request about the call that nobody has answered yet."""
        found = (card for card in self.cards if card.call_id == call_id)
        return next((card for card in found if card.said is None and not card.over), None)

    def undecided(self) -> list[Card]:
        return [card for card in self.cards if card.said is None and not card.over]

    def show(self, pending: PendingApproval, turn_id: str, *, starts: int, at: int) -> Card:
        """The card for a call: the one that is open, or a new one."""
        card = self.open_card(pending.call_id)
        is_same = card is not None and card.pending.outcome_unknown == pending.outcome_unknown
        if card is not None and is_same and pending.supersedes is None:
            return card
        for earlier in self.cards:
            earlier.over = earlier.over or earlier.call_id == pending.call_id
        number = len(self.cards) + 1
        emitted = pending.occurrence_turn_id or turn_id
        new = Card(f"appr_{number}", pending, emitted, starts, at)
        self.cards.append(new)
        return new

    def say(self, card: Card, *, approves: bool, edit: str = "", note: str = "") -> None:
        """Sign a decision about the card and hand it in."""
        effective = edit if edit not in {"", card.pending.args_json} else ""
        token = signed(self._payload(card, approves=approves, edit=effective, note=note))
        verified = verified_of(token)
        assert verified is not None
        self.tokens.append(token)
        card.said = _decision(card, verified.payload)

    def expire(self, card: Card) -> None:
        """Nobody has answered in time: the system denies, which nobody signs."""
        card.said = ApprovalDecision(
            turn_id=card.turn_id,
            call_id=card.call_id,
            request_id=card.pending.request_id,
            tool_name=card.pending.tool_name,
            args_json=card.pending.args_json,
            approved=False,
            approval_id=card.approval_id,
            expired=True,
            outcome_unknown=card.pending.outcome_unknown,
        )

    def _payload(self, card: Card, *, approves: bool, edit: str, note: str) -> dict[str, Any]:
        pending = card.pending
        return APPROVE | {
            "approval_id": card.approval_id,
            "turn_id": card.turn_id,
            "request_id": pending.request_id,
            "tool": pending.tool_name,
            "tool_definition_digest": pending.definition_digest,
            "args_sha256": hashlib.sha256(pending.args_json.encode()).hexdigest(),
            "decision": "approve" if approves else "deny",
            "override_args": edit if approves and edit else None,
            "note": note or None,
            "covered_capabilities": sorted(pending.missing) if approves else [],
        }

    def answer(self, question: PendingQuestion, turn_id: str, *, declines: bool) -> None:
        """Choose the first option, or leave it to the model."""
        chosen: dict[str, Any] = {"outcome": "declined"}
        if not declines:
            label = question.question.options[0].label
            chosen = {"outcome": "answered", "selected_index": 0, "selected_label": label}
        answer = VerifiedAnswer(
            turn_id=question.occurrence_turn_id or turn_id,
            call_id=question.call_id,
            index=question.index,
            args_sha256=hashlib.sha256(question.arguments_json.encode()).hexdigest(),
            answered_by="alice",
            is_principals_own=True,
            **chosen,
        )
        self.answers.append(answer)

    def remembered(self) -> dict[str, list[RememberedGrant]]:
        """The grants as a turn is given them: what was revoked before it is not among them."""
        return {
            tool: [
                RememberedGrant(
                    grant.covered,
                    grant.ref,
                    f"hash of {tool}",
                    expires_at_ms=1 if grant.state == "expired" else None,
                )
            ]
            for tool, grant in self.grants.items()
            if grant.state != "revoked"
        }

    async def is_live(self, grant_ref: str) -> bool:
        """What the register says while the turn is under way; it leaves the time to the turn."""
        taken_back = {"revoked", "revoked since"}
        grants = self.grants.values()
        return any(one.ref == grant_ref and one.state not in taken_back for one in grants)


def verified_of(token: str) -> VerifiedDecision | None:
    """What the token proves under the approver's registered key, if anything."""
    read = read_decision(token)
    if not isinstance(read, ReadDecision):
        return None
    verified = verify_decision(read, key=KEY.public)
    return verified if isinstance(verified, VerifiedDecision) else None


def _decision(card: Card, said: DecisionPayload) -> ApprovalDecision:
    edit = ApprovalOverride(said.override_args or "", said.note or "")
    effective = said.override_args or card.pending.args_json
    return ApprovalDecision(
        turn_id=said.turn_id,
        call_id=card.call_id,
        request_id=said.request_id,
        tool_name=said.tool,
        args_json=card.pending.args_json,
        approved=said.decision == "approve",
        approval_id=said.approval_id,
        override=edit if said.override_args or said.note else None,
        decided_by=(said.approver,),
        covered=frozenset(Capability(name) for name in said.covered_capabilities),
        effective_sha256=hashlib.sha256(effective.encode()).hexdigest(),
        definition_digest=said.tool_definition_digest,
        outcome_unknown=card.pending.outcome_unknown,
    )


def approved_elsewhere(identity: Identity) -> ApprovalDecision:
    """The approval of such a call in the turn before this run."""
    return ApprovalDecision(
        turn_id="turn_0",
        request_id=identity.request_id,
        tool_name=identity.tool_name,
        args_json=identity.args_json,
        approved=True,
        approval_id="appr_0",
    )
