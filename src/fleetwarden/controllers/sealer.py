"""The sealer: puts finished ranges of the ledger under seal, and signs the newest seal every hour.

Only the leader seals, under its lease; should two do it at once, the number of the seal lets one through.  It changes
no row and holds up no writer: what is written while it runs is sealed on a later pass.  A pass that finds nothing new
writes nothing.  A checkpoint that cannot be written is told and tried again, and stops no sealing.
"""

from __future__ import annotations

import structlog

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.sealing import Seal
from fleetwarden.ports.ledger import CheckpointLog
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CADENCE", "CHECKPOINT_EVERY", "Sealer"]

log = structlog.get_logger(__name__)
CADENCE = "ledger_sealer"
RANGE_MAX = 1_000  # entries under one seal
RANGES_MAX = 20  # seals of one pass
CHECKPOINT_EVERY: Micros = 3600 * SECOND


class Sealer:
    """`run` is one pass.  `checkpoints` None: seals are signed nowhere."""

    def __init__(self, store: Store, checkpoints: CheckpointLog | None) -> None:
        self._store = store
        self._checkpoints = checkpoints

    def run(self, fence: LeaseFence | None) -> int:
        """Seal what is due; returns how many rows.  Raises Fenced, StoreUnavailable (also of a checkpoint)."""
        rows = 0
        for _ in range(RANGES_MAX):
            if not self._store.read(lambda tx: tx.ledger.due()):
                break
            made = self._seal(fence)
            if made is None:
                break
            rows += made.count
        self._checkpoint()
        return rows

    def _seal(self, fence: LeaseFence | None) -> Seal | None:
        def run(tx: Tx) -> Seal | None:
            if fence is not None:
                tx.leases.check(fence)
            return tx.ledger.seal(RANGE_MAX)

        try:
            return self._store.transact("seal", run)
        except Conflict as error:
            log.info("another plane sealed this range", error=str(error))
            return None

    def _checkpoint(self) -> None:
        if self._checkpoints is None:
            return
        tip, now = self._store.read(lambda tx: (tx.ledger.tip(), tx.now()))
        if tip is None:
            return
        last = self._checkpoints.newest()
        if last is None or (last.number != tip.number and now - last.at >= CHECKPOINT_EVERY):
            self._checkpoints.write(tip, now)
