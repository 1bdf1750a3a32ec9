"""One transaction as its caller sees it: the concerns side by side over one session.

The order in which a transaction takes its locks on PostgreSQL, everywhere: admission, lease, outbox record, approval,
work item, the rest.  Two transactions that keep it cannot wait for each other in a ring; one that does not is broken
up by the database and run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports import (
    allocations,
    autoscale_rows,
    cooldowns,
    desired,
    epochs,
    evidence,
    intents,
    missing_replicas,
    planes,
    pushed,
    shadows,
    stores,
    versions,
)
from fleetwarden.ports import ledger as ledgers
from fleetwarden.store.allocations import StoredAllocations
from fleetwarden.store.approvals import StoredApprovals
from fleetwarden.store.autoscale_rows import StoredAutoscaleRows
from fleetwarden.store.captures import StoredCaptures
from fleetwarden.store.cooldowns import StoredCooldowns
from fleetwarden.store.decisions import StoredDecisions
from fleetwarden.store.desired import StoredBaselines, StoredForeignChanges, StoredServiceOverrides
from fleetwarden.store.epochs import StoredEpochs
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
from fleetwarden.store.reports import StoredReports
from fleetwarden.store.session import Session
from fleetwarden.store.shadows import StoredShadows
from fleetwarden.store.texts import StoredTexts
from fleetwarden.store.tokens import StoredTokens
from fleetwarden.store.versions import StoredVersions
from fleetwarden.store.work import StoredWork

__all__ = ["Nesting", "Transaction"]


class Transaction:
    """Implements `ports.stores.Tx`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.decisions: stores.Decisions = StoredDecisions(session)
        self.executions: stores.Executions = StoredExecutions(session)
        self.outbox: stores.Outbox = StoredOutbox(session)
        self.approvals: stores.Approvals = StoredApprovals(session)
        self.work: stores.WorkItems = StoredWork(session)
        self.leases: stores.Leases = StoredLeases(session)
        self.freezes: stores.Freezes = StoredFreezes(session)
        self.overrides: stores.PolicyOverrides = StoredOverrides(session)
        self.tokens: stores.Tokens = StoredTokens(session)
        self.journal: stores.Journal = StoredJournal(session)
        self.reports: stores.Reports = StoredReports(session)
        self.facts: stores.Facts = StoredFacts(session)
        self.epochs: epochs.Epochs = StoredEpochs(session)
        self.ledger: ledgers.Ledger = StoredLedger(session)
        self.texts: ledgers.Texts = StoredTexts(session)
        self.placements: planes.Placements = StoredPlacements(session)
        self.hosts: planes.Hosts = StoredHosts(session)
        self.service_overrides: desired.ServiceOverrides = StoredServiceOverrides(session)
        self.foreign: desired.ForeignChanges = StoredForeignChanges(session)
        self.baselines: desired.Baselines = StoredBaselines(session)
        self.captures: evidence.Captures = StoredCaptures(session)
        self.intents: intents.Intents = StoredIntents(session)
        self.cooldowns: cooldowns.Cooldowns = StoredCooldowns(session)
        self.autoscale_rows: autoscale_rows.AutoscaleRows = StoredAutoscaleRows(session)
        self.pushed: pushed.PushedSamples = StoredPushed(session)
        self.missing_replicas: missing_replicas.MissingReplicas = StoredMissingReplicas(session)
        self.shadows: shadows.Shadows = StoredShadows(session)
        self.allocations: allocations.Allocations = StoredAllocations(session)
        self.versions: versions.VersionHistory = StoredVersions(session)

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

    @contextmanager
    def inside(self) -> Iterator[None]:
        """While a transaction's function runs on this thread."""
        self._here.inside = True
        try:
            yield
        finally:
            self._here.inside = False
