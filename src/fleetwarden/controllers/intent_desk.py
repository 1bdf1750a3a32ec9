"""The intent desk: where the autoscaler's wishes become revisions, and the only place that puts them.

One transaction under the admission lock holds all of it: the latest revision is read again, policy decides, and
decision, filed approval and intent are written together, or nothing is.  The desk has no actuator and writes no
authorisation: an accepted intent is a wish that the reconciler may carry out.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.controllers.gate import REBUILD_SPAN
from fleetwarden.controllers.intent_moves import reject, supersede
from fleetwarden.controllers.intent_putting import Put, PutAnswer, Putting, Wanted
from fleetwarden.controllers.open_questions import want_of, withdraw
from fleetwarden.controllers.signal_evidence import KeptQueries
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.controllers.unit_recheck import unit_refusal
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.identifiers import SECOND, seconds
from fleetwarden.domain.lifecycles import IntentState, OutboxState
from fleetwarden.domain.question_evidence import Patience, closed, unfit
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Store, Tx

__all__ = ["INTENT_MAX_AGE_S", "IntentDesk", "Put", "PutAnswer", "Wanted"]

INTENT_MAX_AGE_S = 300.0  # the setting's default: how long an accepted intent may wait to be carried out


class IntentDesk:
    """Puts intents.  `skew_s`: how far ahead a ledger's time may lie before the cooldown counts as unknown;
    `patience`: how often people are asked anew."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        wakes: Wakes,
        texts: KeptTexts,
        *,
        skew_s: float = 5.0,
        patience: Patience | None = None,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._wakes = wakes
        self._texts = texts
        self._skew_s = skew_s
        self.patience = patience or Patience()
        self._queries = KeptQueries()

    def put(self, wishes: Sequence[Wanted], *, fence: LeaseFence, most: int | None = None) -> list[Put]:
        """Decide these wishes, in order, in one transaction.

        At most `most` are accepted or proposed; the rest are DEFERRED without a decision.  Raises Fenced,
        StoreUnavailable.
        """
        if not wishes:
            return []
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> list[Put]:
            tx.lock_admission(exclusive=True)
            configuration = as_asked(tx, self._configuration.current())
            tx.leases.check(fence)
            tx.executions.rebuild(tx.now() - REBUILD_SPAN)
            self._texts.keep(tx, configuration)
            one_by_one = Putting(
                tx, configuration, freeze_file, fence, wishes, skew_s=self._skew_s, patience=self.patience
            )
            spent = 0
            for wish in wishes:
                if most is not None and spent >= most:
                    one_by_one.defer(wish, "this pass has done enough")
                    continue
                spent += one_by_one.put(wish) in (PutAnswer.ACCEPTED, PutAnswer.PROPOSED)
            answers = one_by_one.answers()
            decided = [
                wish.query_text
                for wish, one in zip(wishes, answers, strict=True)
                if one.decision is not None and one.answer is not PutAnswer.REPEATED
            ]
            self._queries.keep(tx, decided)
            if any(one.answer is PutAnswer.ACCEPTED for one in answers):
                tx.after_commit(self._wakes.waker("fleet_reconciler"))
            return answers

        return self._store.transact("put_intents", run)

    def tend(self, fence: LeaseFence, *, max_age_s: float) -> int:
        """Accept what only waited for its unit's window, and end what nobody carried out in time; returns how many.

        An accepted intent that is older than `max_age_s` seconds rests on signals that say nothing about now: it is
        rejected, unless its side effect has begun.  One that waited longer than that for its window is superseded by
        whatever the tick that follows wants, nothing included.  What waits for a person or a window is withdrawn at
        once where nothing follows load any more; a registry that cannot be read withdraws nothing.
        """
        rows = self._store.read(lambda tx: tx.intents.in_state(IntentState.PROPOSED, IntentState.INTENT_ACCEPTED))

        def run(tx: Tx) -> int:
            tx.lock_admission(exclusive=True)
            configuration = as_asked(tx, self._configuration.current())
            tx.leases.check(fence)
            return sum(self._tend_one(tx, configuration, row.seq, max_age_s) for row in rows)

        return self._store.transact("tend_intents", run) if rows else 0

    def _tend_one(self, tx: Tx, configuration: Configuration, seq: int, max_age_s: float) -> int:
        row = tx.intents.get(seq)
        waits = row.state is IntentState.PROPOSED or (
            row.state is IntentState.INTENT_ACCEPTED and row.approval_seq is not None
        )
        if waits and not configuration.fleet.error:
            why = closed(configuration.fleet.services.get(row.intent.service))
            if why is not None and withdraw(tx, row, why):
                return 1
        if row.state is IntentState.INTENT_ACCEPTED:
            return _end_if_old(tx, row, max_age_s)
        if row.state is not IntentState.PROPOSED or row.approval_seq is not None or row.decision_seq is None:
            return 0
        request = tx.decisions.get(row.decision_seq).request
        refused = unit_refusal(tx, configuration.fleet, request, current=row.intent.observed_replicas)
        age = tx.now() - row.intent.created_at
        if refused is None and age >= int(max_age_s * SECOND):
            why = f"its window is open, {seconds(age):.0f} s after its signals: what is wanted now is asked for anew"
            supersede(tx, row, why)
            return 1
        if refused is None and unfit(want_of(row), tx.now(), self.patience) is not None:
            return 0  # the tick that asks for it again lets it go, or ticks withdraw it
        if refused is None:
            tx.intents.move(row, IntentState.INTENT_ACCEPTED, note="its maintenance window is open")
            tx.after_commit(self._wakes.waker("fleet_reconciler"))
            return 1
        if refused.queues_until is not None:
            return 0
        reject(tx, row, refused.reason)
        return 1


def _end_if_old(tx: Tx, row: IntentRow, max_age_s: float) -> int:
    accepted = row.moved_at if row.accepted_at is None else row.accepted_at
    age = tx.now() - accepted
    if age < int(max_age_s * SECOND):
        return 0
    if row.action_seq is not None and tx.outbox.get(row.action_seq).state in (
        OutboxState.RUNNING,
        OutboxState.RECOVERY_PENDING,
    ):
        return 0
    reject(tx, row, f"accepted {seconds(age):.0f} s ago and not carried out: its signals say nothing about now")
    return 1
