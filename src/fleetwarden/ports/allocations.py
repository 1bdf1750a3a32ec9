"""What each elastic unit takes of its pool: the count that its last successful change left it with.

A pool's allocation is the sum of its units' rows; a unit without a row takes what is declared for it.  Rows are written
in the transaction that records a change's success, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Allocations"]


class Allocations(Protocol):
    def put(self, service: str, units: int) -> None:
        """Set what the service's unit takes, dated `tx.now()`.  Raises Refused for a negative count."""

    def all(self) -> Mapping[str, int]:
        """By service."""
