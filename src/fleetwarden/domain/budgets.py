"""Budgets: how often an action may be taken, and on how many targets, within a sliding window.

Budgets are counted from the ledger and from nothing else, so they hold across processes and restarts.  A window of
length W ends now and is open at its start: a use exactly W ago no longer counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros

__all__ = ["BudgetLedger", "Use"]


class Use(Record):
    """One budget slot in use: which decision holds it, since when (admit time; a grant's: its execution)."""

    decision_seq: int
    target: str
    at: Micros


class BudgetLedger(Protocol):
    """What budgets read of the ledger.  `since` is exclusive; answers are newest first."""

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]: ...

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        """The newest use of each distinct target."""
