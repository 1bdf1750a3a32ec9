"""The reconciler's half of a native scale: accepted intents become authorisations, each citing its one decision.

Nothing is decided here: the intent is asked whether it may go, in the transaction that writes its outbox record.  The
record has the intent's identity as its key, so that however often this is done there is one side effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fleetwarden.controllers.gate import Gate, busy_reason, stale_reason
from fleetwarden.controllers.intent_recheck import IntentFate, IntentLimits, end_intent, question
from fleetwarden.controllers.rehearsal import rehearsed
from fleetwarden.controllers.unit_recheck import Roomy
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionDecision, ActionRequest, Evidence, LeaseFence, OutboxRecord, Record
from fleetwarden.domain.convergence import facts
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Authorised", "IntentAuthorising"]


class Authorised(Record):
    """What became of one accepted intent in a pass.  `record` None: it waits, or has ended."""

    service: str
    fate: str
    reason: str
    row: IntentRow
    record: OutboxRecord | None = None
    until: Micros | None = None


class IntentAuthorising:
    """Authorises accepted intents."""

    def __init__(
        self, store: Store, configuration: ConfigurationSource, gate: Gate, *, limits: IntentLimits | None = None
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._gate = gate
        self._limits = limits or IntentLimits()

    def run(
        self,
        services: Mapping[str, Service],
        seen: Mapping[str, ObservedService],
        fence: LeaseFence | None,
        *,
        most: int,
    ) -> list[Authorised]:
        """Authorise at most `most` of the accepted intents of these services; without a fence it is only rehearsed.

        Raises Fenced, StoreUnavailable.
        """
        waiting = self._store.read(lambda tx: tx.intents.in_state(IntentState.INTENT_ACCEPTED))
        chosen = [one for one in waiting if one.intent.service in services]
        if not chosen:
            return []
        freeze_file = self._configuration.freeze_file()

        def run(tx: Tx) -> list[Authorised]:
            tx.lock_admission(exclusive=True)
            if fence is not None:
                tx.leases.check(fence)
            configuration = as_asked(tx, self._configuration.current())
            return self._all(tx, configuration, freeze_file, chosen, seen, most)

        if fence is None:
            return rehearsed(self._store, run)
        return self._store.transact("authorise_intents", run)

    def _all(
        self,
        tx: Tx,
        configuration: Configuration,
        freeze_file: str,
        chosen: Sequence[IntentRow],
        seen: Mapping[str, ObservedService],
        most: int,
    ) -> list[Authorised]:
        done: list[Authorised] = []
        room = Roomy(tx, configuration.fleet)
        for row in chosen:
            if sum(one.record is not None for one in done) >= most:
                done.append(_answer(row, "deferred", "this pass has done enough"))
                continue
            name = row.intent.service
            assert row.decision_seq is not None
            decision = tx.decisions.get(row.decision_seq)
            observed = seen.get(name)
            request = _seen_now(decision.request, observed)
            if (why := busy_reason(tx, request) or stale_reason(tx, request)) is not None:
                done.append(_answer(row, IntentFate.WAITS, why))
                continue
            found = question(
                tx,
                row,
                request,
                service=configuration.fleet.services.get(name),
                observed=observed,
                configuration=configuration,
                freeze_file=freeze_file,
                limits=self._limits,
                room=room,
            )
            if found.fate is not IntentFate.GOES:
                end_intent(tx, row, found)
                done.append(_answer(row, found.fate, found.reason, until=found.until))
                continue
            done.append(self._authorise(tx, row, decision, request))
        return done

    def _authorise(self, tx: Tx, row: IntentRow, decision: ActionDecision, request: ActionRequest) -> Authorised:
        approval = None if row.approval_seq is None else tx.approvals.get(row.approval_seq)
        fresh = msgspec.structs.replace(decision, request=request)
        admitted = self._gate.prepare(tx, fresh, approval)
        assert admitted.record is not None
        tx.intents.link(row, action_seq=admitted.record.seq)
        return _answer(row, IntentFate.GOES, decision.reason, record=admitted.record)


def _answer(
    row: IntentRow, fate: str, reason: str, *, record: OutboxRecord | None = None, until: Micros | None = None
) -> Authorised:
    return Authorised(service=row.intent.service, fate=fate, reason=reason, row=row, record=record, until=until)


def _seen_now(request: ActionRequest, observed: ObservedService | None) -> ActionRequest:
    """The decided request with this pass's look; what the signals said stays with it."""
    if observed is None:
        return request
    kept = {name: value for name, value in request.evidence.facts.items() if name == "scaling"}
    evidence = Evidence(
        observed_at=observed.observed_at, reason=request.evidence.reason, facts={**facts(observed), **kept}
    )
    return msgspec.structs.replace(request, evidence=evidence)
