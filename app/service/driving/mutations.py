"""The recorder of dispatch mutations: signed and committed before they apply (turn.md 7.7).

What was redacted goes nowhere: of the original result only the digest is kept. New arguments and
injected texts lie in the private column, from where a resumed run takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from app.engine.json.arguments import sha256_hex
from app.log.calls import DispatchMutated
from app.trust.mutation import Mutation
from app.trust.statement import StatementKind, signature_of
from app.turn.ports import DispatchRecorder, Fact

if TYPE_CHECKING:
    from app.log.records import Lease
    from app.service.statements import Statements
    from app.turn.ports import DispatchMutation, Journal


class SignedMutations(DispatchRecorder):
    """Records the mutations of one turn in its journal.

    Every turn has one: rules can change calls, and a service that has no key to sign that with, or
    cannot publish it, does not start.
    """

    def __init__(
        self, journal: Journal, statements: Statements, lease: Lease, *, turn_id: str
    ) -> None:
        self._journal = journal
        self._statements = statements
        self._lease = lease
        self._turn_id = turn_id

    @override
    async def record(self, mutation: DispatchMutation) -> bool:
        """True once it is committed. Raises LeaseLost, StoreUnavailable."""
        after = mutation.mutated.encode()
        signed = Mutation(
            tenant=self._lease.tenant,
            conversation_id=self._lease.conversation_id,
            run_id=self._lease.run.id,
            turn_id=mutation.turn_id or self._turn_id,
            worker="" if mutation.worker is None else mutation.worker.call_id,
            call_id=mutation.call_id,
            tool=mutation.tool,
            kind=mutation.kind,
            rule=mutation.rule,
            original_sha256=mutation.original_sha256,
            mutated_sha256=sha256_hex(after),
        )
        statement = self._statements.sign(StatementKind.DISPATCH_MUTATION, signed.members())
        mutated = DispatchMutated(
            worker=mutation.worker,
            call_id=signed.call_id,
            tool=signed.tool,
            kind=signed.kind,
            original_sha256=signed.original_sha256,
            rule=signed.rule,
            mutated_sha256=signed.mutated_sha256,
            kid=self._statements.kid,
            signature=signature_of(statement),
        )
        private = None if mutation.kind == "result_redaction" else after
        fact = Fact(mutated, mutation.step, private=private, turn_id=mutation.turn_id)
        await self._journal.record(fact)
        return True
