"""The auditor's rules on seals, and an independent look at what is sealed when a history is over.

Each seal is written once, by whoever holds the sealer's lease, behind the one before it.  At the end every row that the
ledger was given is looked at again: the offline verifier, which shares no code with the product, computes every digest
and root anew, and what the database wrote down of each row when it was made is what stands there now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["SealsAuditor"]

SECOND = 1_000_000
LATE_S = 190  # how old a row may be that no seal covers when all has calmed down: a sealer may have stalled for 100 s
KEPT = {"decisions": 0, "executions": 0, "votes": 0, "approvals": 0}  # what is entered of what is written down here
CADENCE = ("ledger_sealer", "0")


class SealsAuditor:
    """`find` takes a sentence for what is wrong; `leases`: who holds which, kept up to date by whoever walks."""

    def __init__(self, find: Callable[[str], None], leases: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        self._find = find
        self._leases = leases
        self._seals: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Any]] = []
        self._made: dict[str, dict[int, Mapping[str, Any]]] = {kind: {} for kind in KEPT}
        self.handlers: dict[str, Callable[[Any], None]] = {"seals": self._on_seal, "commit": self._on_commit}
        for kind in KEPT:
            self.handlers[kind] = self._on_row

    def _on_row(self, event: Any) -> None:
        if event.what == "delete":
            self._find(f"row {event.data['seq']} of {event.kind} was deleted")
        self._made[event.kind].setdefault(event.data["seq"], event.data)

    def _on_seal(self, event: Any) -> None:
        row = dict(event.data)
        name = f"seal {row['number']}"
        if event.what != "insert":
            self._find(f"{name} was {event.what}d")
            return
        none: dict[str, Any] = {"number": 0, "last": 0, "digest": "", "at": 0}
        before = self._seals[-1] if self._seals else none
        if (row["number"], row["first"], row["previous"]) != (
            before["number"] + 1,
            before["last"] + 1,
            before["digest"],
        ):
            self._find(f"{name} does not follow seal {before['number']}, which ends at {before['last']}")
        if row["at"] < before["at"]:
            self._find(f"{name} is dated before the one that it follows")
        self._seals.append(row)
        self._fresh.append(row)

    def _on_commit(self, event: Any) -> None:
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        lease = self._leases.get(CADENCE)
        if lease is None or lease["holder"] != event.data["plane"]:
            self._find(f"seal {fresh[0]['number']} was made by {event.data['plane']}, which does not hold the lease")

    # ------------------------------------------------------------------------------------------- the end
    def finish(self, database: Path, newest: int, *, at_rest: bool) -> None:
        """Hold the ledger as it stands now against what was written down of it.  `newest`: the ledger's last time."""
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            for kind, made in self._made.items():
                self._same_rows(connection, kind, made)
            standing = [dict(row) for row in connection.execute("SELECT * FROM seals ORDER BY number")]
            if standing != self._seals:
                self._find(f"{len(standing)} seals stand there, {len(self._seals)} were made")
            if not at_rest:
                return
            open_ = connection.execute(
                "SELECT min(d.at) FROM ledger l JOIN decisions d ON l.kind = 'decisions' AND l.ref = d.seq "
                "WHERE l.position IS NULL"
            ).fetchone()[0]
            if open_ is not None and open_ < newest - LATE_S * SECOND:
                self._find(f"at the end a decision is not sealed after {(newest - open_) / SECOND:.0f} s")

    def _same_rows(self, connection: sqlite3.Connection, kind: str, made: Mapping[int, Mapping[str, Any]]) -> None:
        entered = {ref for (ref,) in connection.execute("SELECT ref FROM ledger WHERE kind = ?", [kind])}
        rows = {row["seq"]: row for row in connection.execute(f"SELECT * FROM {kind}")}
        if missing := sorted(made.keys() - rows.keys()):
            self._find(f"{kind} {missing} were written, and are gone")
        if lost := sorted(made.keys() - entered):
            self._find(f"{kind} {lost} were never entered into the ledger")
