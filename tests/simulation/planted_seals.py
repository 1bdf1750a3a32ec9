"""The promises of the sealed ledger, broken one by one, as `planted` does it for the protocol.

Nobody in a history reads a seal: what is wrong with one shows at the end, when all of them are verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from fleetwarden.domain import sealing
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.sealing import Leaf, Seal
from fleetwarden.ports.stores import Tx
from fleetwarden.store import ledger, schema
from fleetwarden.store.ledger import StoredLedger
from fleetwarden.store.statements import Statement, param
from tests.simulation.planted import Planted, unfenced

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["SEALS"]

_REASONED = Statement(
    sa.update(schema.decisions)
    .values(reason=param("reason", str))
    .where(schema.decisions.c.seq == sa.literal_column("1"))
    .returning(schema.decisions.c.seq)
)
_DROPPED = Statement(
    sa.delete(schema.journal).where(schema.journal.c.seq == param("of")).returning(schema.journal.c.seq)
)


class OnSeals(Planted):
    """In every history the ledger is sealed."""

    tilt: ClassVar[Mapping[str, Any]] = {"seals": True}


class SealedRowChanges(OnSeals):
    name = "a decision that is sealed gets another reason"

    def into(self, history: History) -> None:
        seal = StoredLedger.seal

        def corrected(self: StoredLedger, most: int) -> Seal | None:
            made = seal(self, most)
            if made is not None and made.number == 2:
                self._session.change(_REASONED, reason="it was meant otherwise")
            return made

        self.replace(StoredLedger, "seal", corrected)


class SealedRowIsDropped(OnSeals):
    name = "an entry of the journal that is sealed is taken away"

    def into(self, history: History) -> None:
        seal = StoredLedger.seal

        def tidied(self: StoredLedger, most: int) -> Seal | None:
            made = seal(self, most)
            if made is not None and made.number == 2:
                self._session.change(_DROPPED, of=1)
            return made

        self.replace(StoredLedger, "seal", tidied)


class OneIsLeftOut(OnSeals):
    name = "a seal counts a row that its root leaves out"

    def into(self, history: History) -> None:
        root = sealing.merkle_root

        def shorter(leaves: Sequence[Leaf]) -> str:
            return root(leaves[:-1] or leaves)

        self.replace(sealing, "merkle_root", shorter)


class SealsStandAlone(OnSeals):
    name = "a seal does not name the one before it"

    def into(self, history: History) -> None:
        sealed = sealing.sealed

        def unchained(leaves: Sequence[Leaf], before: Seal | None, at: int) -> Seal:
            made = sealed(leaves, before, at)
            body = {name: getattr(made, name) for name in ("number", "first", "last", "count", "root", "at")}
            return Seal(**body, previous="", digest=digest({"format": sealing.FORMAT, **body, "previous": ""}))

        self.replace(sealing, "sealed", unchained)


class NeverEntered(OnSeals):
    name = "executions are written, and not entered into the ledger"

    def into(self, history: History) -> None:
        enter = ledger.enter

        def some(session: Any, table: str, row: Mapping[str, Any]) -> None:
            if table != "executions":
                enter(session, table, row)

        self.replace(ledger, "enter", some)


class AnybodySeals(OnSeals):
    name = "a plane seals though it does not hold the lease any more"
    tilt: ClassVar[Mapping[str, Any]] = {
        "seals": True,
        "planes": 3,
        "lease_ttl_s": 5.0,
        "stall": 0.15,
        "crash": 0.0,
        "rough_steps": 600,
    }

    def tx(self, name: str, tx: Tx) -> Tx:
        return unfenced(tx) if name == "seal" else tx


class SealedOnce(OnSeals):
    name = "nothing is sealed any more after the first time"

    def into(self, history: History) -> None:
        due = StoredLedger.due
        self.replace(StoredLedger, "due", lambda self: self.tip() is None and due(self))


SEALS: Sequence[Callable[[], Planted]] = (
    SealedRowChanges,
    SealedRowIsDropped,
    OneIsLeftOut,
    SealsStandAlone,
    NeverEntered,
    AnybodySeals,
    SealedOnce,
)
