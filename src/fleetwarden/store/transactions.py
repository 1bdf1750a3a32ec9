"""One transaction as its caller sees it: the concerns side by side over one session.

The order in which a transaction takes its locks on PostgreSQL, everywhere: admission, lease, outbox record, approval,
work item, the rest.  Two transactions that keep it cannot wait for each other in a ring; one that does not is broken
up by the database and run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports import (
    allocations,
    autoscale_rows,
    cooldowns,
    desired,
    epochs,
    events,
    evidence,
    intents,
    missing_replicas,
    notices,
    planes,
    pushed,
    shadows,
    stores,
    versions,
    watches,
)
from fleetwarden.ports import ledger as ledgers
from fleetwarden.store.allocations import StoredAllocations
from fleetwarden.store.approvals import StoredApprovals
from fleetwarden.store.autoscale_rows import StoredAutoscaleRows
from fleetwarden.store.captures import StoredCaptures
from fleetwarden.store.cooldowns import StoredCooldowns
from fleetwarden.store.decisions import StoredDecisions
from fleetwarden.store.deliveries import StoredBlockedServices, StoredDeliveries
from fleetwarden.store.desired import StoredBaselines, StoredForeignChanges, StoredServiceOverrides
from fleetwarden.store.epochs import StoredEpochs
from fleetwarden.store.events import StoredEvents
from fleetwarden.store.executions import StoredExecutions
from fleetwarden.store.facts import StoredFacts
from fleetwarden.store.freezes import StoredFreezes
from fleetwarden.store.intents import StoredIntents
from fleetwarden.store.journal import StoredJournal
from fleetwarden.store.leases import StoredLeases
from fleetwarden.store.ledger import StoredLedger
from fleetwarden.store.missing_replicas import StoredMissingReplicas
from fleetwarden.store.outbox import StoredOutbox
from fleetwarden.store.overrides import StoredOverrides
from fleetwarden.store.planes import StoredHosts, StoredPlacements
from fleetwarden.store.pushed import StoredPushed
from fleetwarden.store.quarantines import StoredQuarantines
from fleetwarden.store.reports import StoredReports
from fleetwarden.store.session import Session
from fleetwarden.store.shadows import StoredShadows
from fleetwarden.store.texts import StoredTexts
from fleetwarden.store.tokens import StoredTokens
from fleetwarden.store.versions import StoredVersions
from fleetwarden.store.watches import StoredWatches
from fleetwarden.store.work import StoredWork

__all__ = ["Nesting", "Transaction"]

P = TypeVar("P")


class _Concern(Generic[P]):
    """One concern of a transaction, made when it is first asked for: most transactions touch three or four of many."""

    def __init__(self, make: Callable[[Session], P]) -> None:
        self._make = make

    def __set_name__(self, owner: type[Transaction], name: str) -> None:
        self._name = name

    def __get__(self, tx: Transaction, owner: type[Transaction]) -> P:
        made = self._make(tx._session)  # noqa: SLF001 -- it is a part of this transaction
        tx.__dict__[self._name] = made  # from here on the instance answers, and this is not asked again
        return made


class Transaction:
    """Implements `ports.stores.Tx`."""

    decisions = _Concern[stores.Decisions](StoredDecisions)
    executions = _Concern[stores.Executions](StoredExecutions)
    outbox = _Concern[stores.Outbox](StoredOutbox)
    approvals = _Concern[stores.Approvals](StoredApprovals)
    work = _Concern[stores.WorkItems](StoredWork)
    leases = _Concern[stores.Leases](StoredLeases)
    freezes = _Concern[stores.Freezes](StoredFreezes)
    overrides = _Concern[stores.PolicyOverrides](StoredOverrides)
    tokens = _Concern[stores.Tokens](StoredTokens)
    journal = _Concern[stores.Journal](StoredJournal)
    reports = _Concern[stores.Reports](StoredReports)
    facts = _Concern[stores.Facts](StoredFacts)
    epochs = _Concern[epochs.Epochs](StoredEpochs)
    ledger = _Concern[ledgers.Ledger](StoredLedger)
    texts = _Concern[ledgers.Texts](StoredTexts)
    placements = _Concern[planes.Placements](StoredPlacements)
    hosts = _Concern[planes.Hosts](StoredHosts)
    service_overrides = _Concern[desired.ServiceOverrides](StoredServiceOverrides)
    foreign = _Concern[desired.ForeignChanges](StoredForeignChanges)
    baselines = _Concern[desired.Baselines](StoredBaselines)
    captures = _Concern[evidence.Captures](StoredCaptures)
    intents = _Concern[intents.Intents](StoredIntents)
    cooldowns = _Concern[cooldowns.Cooldowns](StoredCooldowns)
    autoscale_rows = _Concern[autoscale_rows.AutoscaleRows](StoredAutoscaleRows)
    pushed = _Concern[pushed.PushedSamples](StoredPushed)
    shadows = _Concern[shadows.Shadows](StoredShadows)
    missing_replicas = _Concern[missing_replicas.MissingReplicas](StoredMissingReplicas)
    deliveries = _Concern[notices.Deliveries](StoredDeliveries)
    blocked = _Concern[notices.BlockedServices](StoredBlockedServices)
    allocations = _Concern[allocations.Allocations](StoredAllocations)
    versions = _Concern[versions.VersionHistory](StoredVersions)
    events = _Concern[events.Events](StoredEvents)
    quarantines = _Concern[watches.Quarantines](StoredQuarantines)
    watches = _Concern[watches.Watches](StoredWatches)

    def __init__(self, session: Session) -> None:
        self._session = session

    def now(self) -> Micros:
        return self._session.now()

    def lock_admission(self, *, exclusive: bool) -> None:
        self._session.lock_admission(exclusive=exclusive)

    def after_commit(self, release: Callable[[], None]) -> None:
        self._session.after_commit(release)


class Nesting:
    """Knows whether this thread is inside a transaction's function, where another transaction is refused."""

    def __init__(self) -> None:
        self._here = threading.local()

    def refuse(self) -> None:
        """Raises Refused inside a transaction: the two would wait for each other, or see different states."""
        if getattr(self._here, "inside", False):
            raise Refused(
                "a transaction inside a transaction",
                code="nested_transaction",
                hint="use the tx that was handed in, or register the second one with tx.after_commit",
            )

    def inside(self) -> Nesting:
        """While a transaction's function runs on this thread: `with nesting.inside()`."""
        return self

    def __enter__(self) -> None:
        self._here.inside = True

    def __exit__(self, *_: object) -> None:
        self._here.inside = False
