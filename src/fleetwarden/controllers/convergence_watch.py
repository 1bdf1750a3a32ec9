"""Whether what was executed holds: two looks that agree, or a deadline.

Only observers' evidence moves an executed intent on.  Looks from before the execution say nothing; a look that
contradicts makes the next one that agrees the first again.  What was never seen to hold ends as failed, and people are
told once.  Nothing here acts, proposes, or takes an answer of the actuator for evidence.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.fleet import ObservedService
from fleetwarden.domain.identifiers import JsonValue, Micros, rfc3339
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.ports.intents import Convergence, IntentRow
from fleetwarden.ports.stores import Store, Tx

__all__ = ["ConvergenceWatch"]

_WATCHED = (IntentState.EXECUTED, IntentState.OBSERVED)


class ConvergenceWatch:
    """Moves executed intents by what a pass has seen."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, seen: Mapping[str, ObservedService], fence: LeaseFence) -> int:
        """Judge one look at the fleet; returns how many intents moved.  Raises Fenced, StoreUnavailable."""
        rows, now = self._store.read(lambda tx: (tx.intents.in_state(*_WATCHED), tx.now()))
        due = [one for one in rows if _says_something(one, seen.get(one.intent.service), now)]
        if not due:
            return 0

        def run(tx: Tx) -> int:
            tx.leases.check(fence)
            return sum(self._judge(tx, one.seq, seen.get(one.intent.service)) for one in due)

        return self._store.transact("convergence", run)

    def _judge(self, tx: Tx, seq: int, observed: ObservedService | None) -> int:
        row = tx.intents.get(seq)
        if row.state not in _WATCHED:
            return 0
        if (newer := _overtaken(tx, row)) is not None:
            self._ended_by(tx, row, newer)
            return 1
        told = row.convergence
        if _newer(row, observed):
            assert observed is not None
            if observed.ready == observed.total == row.intent.desired_replicas:
                return self._agreed(tx, row, observed)
            told = _contradicted(told, observed)
        if told.deadline is not None and tx.now() >= told.deadline:
            return self._never(tx, row, told)
        if told != row.convergence:
            tx.intents.note_convergence(row, told)
        return 0

    @staticmethod
    def _ended_by(tx: Tx, row: IntentRow, newer: IntentRow) -> None:
        """It was carried out and can no longer be seen to hold: no fault of anybody's, so nobody is told.

        An executed one is never superseded; it ends as one that never converged, and by what is kept with it.
        """
        told = msgspec.structs.replace(row.convergence, overtaken_by=newer.seq)
        note = f"carried out, and overtaken by {newer.id} before it was seen to hold"
        tx.intents.move(row, IntentState.FAILED, note=note, convergence=told)

    @staticmethod
    def _agreed(tx: Tx, row: IntentRow, observed: ObservedService) -> int:
        """The first look makes it observed; a strictly later one, with none against it between, verified."""
        known, evidence = row.convergence, _evidence(observed)
        first = known.observed_at is None
        seen = msgspec.structs.replace(known, evidence=evidence)
        if first:
            seen = msgspec.structs.replace(seen, observed_at=observed.observed_at)
            if row.state is IntentState.EXECUTED:
                tx.intents.move(row, IntentState.OBSERVED, note=_words(observed), convergence=seen)
                return 1
            tx.intents.note_convergence(row, seen)
            return 0
        seen = msgspec.structs.replace(seen, verified_at=observed.observed_at)
        tx.intents.move(row, IntentState.VERIFIED, note=_words(observed), convergence=seen)
        return 1

    @staticmethod
    def _never(tx: Tx, row: IntentRow, told: Convergence) -> int:
        name, wanted = row.intent.service, row.intent.desired_replicas
        why = f"{wanted} ready replicas were not seen to hold by {rfc3339(told.deadline)}"
        tx.intents.move(row, IntentState.FAILED, note=why, convergence=told)
        tx.journal.write(
            topic="notice",
            actor="autoscaler",
            subject=name,
            severity="error",
            summary=f"{name} was scaled to {wanted} and did not get there ({row.id}): {why}",
            detail={"incident": "not_converged", "intent": row.id, "evidence": dict(told.evidence)},
        )
        return 1


def _says_something(row: IntentRow, observed: ObservedService | None, now: Micros) -> bool:
    """Whether a transaction is worth its while: a look that is news to this intent, or its deadline."""
    deadline = row.convergence.deadline
    return _newer(row, observed) or (deadline is not None and now >= deadline)


def _newer(row: IntentRow, observed: ObservedService | None) -> bool:
    """A look that began after the execution, and after the last one that counted."""
    if observed is None:
        return False
    known = row.convergence
    since = max(known.observed_at or 0, known.against_at or 0) or _executed_at(row)
    return observed.observed_at > since


def _executed_at(row: IntentRow) -> Micros:
    """An observed intent has a look of its own; before that, the move to executed is what a look has to follow."""
    return row.moved_at


def _overtaken(tx: Tx, row: IntentRow) -> IntentRow | None:
    """A newer revision whose change has been made: this one can no longer be seen to hold."""
    latest = tx.intents.latest(row.intent.service)
    if latest is None or latest.seq == row.seq:
        return None
    made = (IntentState.EXECUTED, IntentState.OBSERVED, IntentState.VERIFIED)
    return latest if latest.state in made else None


def _contradicted(known: Convergence, observed: ObservedService) -> Convergence:
    return msgspec.structs.replace(
        known, observed_at=None, against_at=observed.observed_at, evidence=_evidence(observed)
    )


def _evidence(observed: ObservedService) -> Mapping[str, JsonValue]:
    return {
        "observed_at": observed.observed_at,
        "ready": observed.ready,
        "existing": observed.existing,
        "total": observed.total,
        "seen_by": observed.source,
    }


def _words(observed: ObservedService) -> str:
    return f"{observed.ready} of {observed.total} ready, seen by {observed.source}"
