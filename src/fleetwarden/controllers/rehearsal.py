"""Rehearsals: a transaction's function run for its answer alone, and everything that it wrote taken back.

The same code that acts says what it would do, so that the two can never differ.  Nothing of it is kept, and nothing
that it registered for after the commit ever runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fleetwarden.ports.stores import Store, Tx

__all__ = ["rehearsed"]

T = TypeVar("T")


class _TakenBack(Exception):
    """Ends a rehearsal."""


def rehearsed(store: Store, fn: Callable[[Tx], T]) -> T:
    """What `fn` returns in a transaction of which nothing is kept.  Raises as `store.transact`."""
    answers: list[T] = []

    def run(tx: Tx) -> None:
        answers.append(fn(tx))
        raise _TakenBack

    try:
        store.transact("rehearsal", run)
    except _TakenBack:
        return answers[-1]
    raise AssertionError("a rehearsal was kept")
