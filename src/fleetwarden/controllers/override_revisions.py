"""A person's override of a service that follows load, as a revision of the same sequence.

Part of the transaction that writes the override: whatever waited to be carried out is superseded by it, and nobody's
older read can be put over it.  What is being carried out at that moment runs to its own end; the override is converged
to after it.
"""

from __future__ import annotations

from fleetwarden.controllers.intent_moves import supersede, under_way
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.lifecycle import IntentOperation, ScaleIntent, SignalSummaryRef, intent_id
from fleetwarden.domain.desired import Override
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.ports.intents import IntentRow
from fleetwarden.ports.stores import Tx

__all__ = ["note_override"]

_WAITING = (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED)


def note_override(tx: Tx, service: Service, override: Override) -> IntentRow | None:
    """Write the override's revision; None where the service does not follow load here."""
    if service.scaling is None or service.scaling.controller_mode != NATIVE:
        return None
    latest = tx.intents.latest(service.name)
    if latest is not None and latest.state in _WAITING and not under_way(tx, latest):
        supersede(tx, latest, f"override {override.id} of {override.by}")
    expected = 0 if latest is None else latest.intent.revision
    count = (
        override.replicas if override.replicas is not None else 0 if latest is None else latest.intent.desired_replicas
    )
    # Two overrides of the same count are two wishes: the override itself is part of the identity.
    name = digest([intent_id(service.name, NATIVE, expected, IntentOperation.OVERRIDE.value, count), override.id])
    return tx.intents.put(
        ScaleIntent(
            service=service.name,
            unit=service.name,
            controller_mode=NATIVE,
            intent_id=name,
            idempotency_key=name,
            expected_revision=expected,
            revision=expected + 1,
            operation=IntentOperation.OVERRIDE,
            desired_replicas=count,
            observed_replicas=0 if latest is None else latest.intent.desired_replicas,
            signal=SignalSummaryRef(digest=digest([]), window_start=tx.now(), window_end=tx.now(), signals=0),
            fence=LeaseFence(cadence="override", shard=service.name, holder=override.by, token=0),
            decision_id="",
            created_at=tx.now(),
        ),
        state=IntentState.SUPERSEDED,
        decision_seq=None,
    )
