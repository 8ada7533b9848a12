"""Approvals: read, prepare a decision, decide, decide many; and the consents of a session.

A decision that is refused leaves the approval pending and is recorded; that record has a
transaction of its own, for the one of the request is rolled back by then.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response
from starlette.requests import Request
from typing_extensions import override

from app.api.codes import answer_of
from app.api.edge import Call, Calling, Reading, Writing
from app.api.paging import Cursor, Limit, TextFilter, cut_page, page_of
from app.api.problems import Problem, problem_of, request_id_of
from app.api.resources.approval_documents import (
    Approval,
    ApprovalList,
    BatchedDecision,
    BatchResult,
    BatchResults,
    DecideBatch,
    DecisionResult,
    DraftDecision,
    PasskeyOptions,
    SessionApprovalList,
    SignedDecision,
    UnsignedDecision,
    approval_document,
    session_approval_document,
    unsigned_document,
)
from app.api.routes import EdgeRoute, Endpoint, Routes, WriteRoute
from app.errors import TurngateError
from app.service.refusals import DecisionRefusal
from app.service.requests import Decided, Verdict
from app.trust.decision import Malformed, read_decision
from app.trust.passkey_decision import read_passkey_decision

routes = Routes(tags=["approvals"])


class DecisionRoute(WriteRoute):
    """Records a refused decision once its transaction is rolled back."""

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """The answer to the decision, or its refusal, recorded."""
        try:
            return await super().serve(request, call, endpoint)
        except DecisionRefusal as refusal:
            approval_id = request.path_params["approval_id"]
            await call.edge.approvals.note_refusal(call.caller, approval_id, refusal)
            raise


class BatchRoute(EdgeRoute):
    """Each decision of a batch commits for itself, so the answer's key cannot commit with them.

    It is looked up before, and kept after. A crash in between leaves the key free, and the same
    decisions again change nothing.
    """

    takes_key = True

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """The answer to the batch, or its first answer again."""
        claim, edge, caller = call.claim, call.edge, call.caller
        if claim is None:
            return await super().serve(request, call, endpoint)
        first = await claim.first_answer(edge.database, caller, edge.clock)
        if first is not None:
            return first
        response = await super().serve(request, call, endpoint)
        async with edge.database.transaction(caller.tenant) as tx:
            first = await claim.answered(tx, caller, edge.clock)
            if first is None:
                await claim.keep(tx, caller, response)
            return first or response


StatusFilter = Annotated[
    Literal["pending", "approved", "denied", "expired", "cancelled", "superseded"] | None, Query()
]


@routes.read("/v1/approvals", "list_approvals", scope="approvals:read")
async def list_approvals(
    call: Reading,
    *,
    status: StatusFilter = None,
    run_id: TextFilter = None,
    conversation_id: TextFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ApprovalList:
    """Approvals in reach, newest first."""
    asked = {"status": status, "run_id": run_id, "conversation_id": conversation_id}
    filters = {name: value for name, value in asked.items() if value is not None}
    page = page_of(limit, cursor)
    found = await call.edge.approvals.page(call.session, call.caller, page, filters)
    shown, more = cut_page(found, limit, lambda approval: approval.id)
    return ApprovalList(items=[approval_document(item) for item in shown], next_cursor=more)


@routes.read("/v1/approvals/{approval_id}", "get_approval", scope="approvals:read")
async def get_approval(call: Reading, approval_id: str) -> Approval:
    """One approval, never cut."""
    found = await call.edge.approvals.read(call.session, call.caller, approval_id)
    return approval_document(found)


@routes.read(
    "/v1/approvals/{approval_id}/payload",
    "prepare_decision",
    scope="approvals:decide",
    method="POST",
)
async def prepare_decision(
    call: Reading, approval_id: str, body: DraftDecision
) -> UnsignedDecision:
    """The payload of a decision, and the exact text to sign; nothing is stored."""
    signed = await call.edge.approvals.payload(call.session, call.caller, approval_id, body.draft())
    return unsigned_document(signed)


@routes.read(
    "/v1/approvals/{approval_id}/passkey-options",
    "prepare_passkey_decision",
    scope="approvals:decide",
    method="POST",
)
async def prepare_passkey_decision(
    call: Reading, approval_id: str, body: DraftDecision
) -> PasskeyOptions:
    """The text of a decision, and the WebAuthn options to sign it; nothing is stored."""
    edge = call.edge
    signed = await edge.approvals.payload(call.session, call.caller, approval_id, body.draft())
    options = await edge.passkeys.assertion_options(call.session, call.caller, signed.canonical)
    return PasskeyOptions(canonical=signed.canonical, options=options)


@routes.write(
    "POST",
    "/v1/approvals/{approval_id}/approve",
    "approve_approval",
    scope="approvals:decide",
    kind=DecisionRoute,
)
async def approve_approval(call: Writing, approval_id: str, body: SignedDecision) -> DecisionResult:
    """Approve a call with a signed decision."""
    return _result(
        await call.edge.approvals.decide(call.tx, call.caller, approval_id, "approve", body.proof())
    )


@routes.write(
    "POST",
    "/v1/approvals/{approval_id}/deny",
    "deny_approval",
    scope="approvals:decide",
    kind=DecisionRoute,
)
async def deny_approval(call: Writing, approval_id: str, body: SignedDecision) -> DecisionResult:
    """Deny a call with a signed decision."""
    return _result(
        await call.edge.approvals.decide(call.tx, call.caller, approval_id, "deny", body.proof())
    )


@routes.open(
    "POST", "/v1/approvals/batch", "decide_batch", scope="approvals:decide", kind=BatchRoute
)
async def decide_batch(call: Calling, request: Request, body: DecideBatch) -> BatchResults:
    """Decide many approvals, each for itself, in the order sent."""
    return BatchResults(
        results=[await _decide_one(call, item, request_id_of(request)) for item in body.decisions]
    )


@routes.read(
    "/v1/conversations/{conversation_id}/session-approvals",
    "list_session_approvals",
    scope="approvals:read",
)
async def list_session_approvals(
    call: Reading, conversation_id: str, *, limit: Limit = 50, cursor: Cursor = None
) -> SessionApprovalList:
    """The standing consents of a conversation, newest first."""
    page = page_of(limit, cursor)
    consents = await call.edge.approvals.session_approvals(
        call.session, call.caller, conversation_id
    )
    # Their number is bounded by agents and tools, so they are read at once and cut here.
    newest = sorted(consents, key=lambda consent: consent.approval_id, reverse=True)
    rest = [one for one in newest if page.before is None or one.approval_id < page.before]
    shown, more = cut_page(rest, limit, lambda consent: consent.approval_id)
    return SessionApprovalList(
        items=[session_approval_document(consent) for consent in shown], next_cursor=more
    )


@routes.write(
    "DELETE",
    "/v1/conversations/{conversation_id}/session-approvals/{tool}",
    "end_session_approval",
    scope="approvals:decide",
    status_code=204,
)
async def end_session_approval(call: Writing, conversation_id: str, tool: str) -> None:
    """Take back the caller's own standing consent to a tool."""
    await call.edge.approvals.end_session_approval(call.tx, call.caller, conversation_id, tool)


async def _decide_one(call: Call, item: BatchedDecision, request_id: str) -> BatchResult:
    approvals, caller, proof = call.edge.approvals, call.caller, item.proof()
    try:
        async with call.edge.database.transaction(caller.tenant) as tx:
            decided = await approvals.decide(
                tx, caller, item.approval_id, _verdict_in(proof), proof
            )
    except TurngateError as error:
        if isinstance(error, DecisionRefusal):
            await approvals.note_refusal(caller, item.approval_id, error)
        problem = Problem(**problem_of(error, request_id))
        status = answer_of(error.code).status
        return BatchResult(approval_id=item.approval_id, status=status, problem=problem)
    return BatchResult(
        approval_id=item.approval_id,
        status=200,
        approval=approval_document(decided.approval),
        persisted=decided.persisted,
    )


def _verdict_in(proof: object) -> Verdict:
    """What a batched decision says itself: it has no path to say it."""
    read = read_decision(proof) if isinstance(proof, str) else read_passkey_decision(proof)
    return "approve" if isinstance(read, Malformed) else read.payload.decision


def _result(decided: Decided) -> DecisionResult:
    return DecisionResult(approval=approval_document(decided.approval), persisted=decided.persisted)
