"""The offline verifier over many changed copies of one export, without reading the same again and again.

What a copy has in common with the original up to its first change is read once; and reading ends at the first fault,
because nothing takes a fault back.  Whoever uses this compares it with whole readings on a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fleetwarden.ledger_verifier import Report, Verifier

__all__ = ["Replay", "verified"]


def verified(items: Iterable[Any], key: bytes | None) -> Report:
    """One whole reading, from the first item to the last."""
    verifier = Verifier(key)
    for item in items:
        verifier.take(item)
    return verifier.end()


class Replay:
    """Remembers a verifier at each place of `items`, just before it takes that item."""

    def __init__(self, items: Sequence[Any], key: bytes | None) -> None:
        self._items = items
        self._before: list[Verifier] = []
        verifier = Verifier(key)
        for item in items:
            self._before.append(copy.deepcopy(verifier))
            verifier.take(item)

    def sound(self, changed: Sequence[Any]) -> bool:
        """What `verified(changed, key).sound` is."""
        pairs = enumerate(zip(self._items, changed, strict=False))
        shared = min(len(self._items), len(changed)) - 1
        first = next((at for at, (one, other) in pairs if one is not other and one != other), shared)
        verifier = _forked(self._before[first])
        if verifier._report.faults:
            return False
        for item in changed[first:]:
            verifier.take(item)
            if verifier._report.faults:
                return False
        return verifier.end().sound


def _forked(verifier: Verifier) -> Verifier:
    """One that goes on alone.  Items are never changed, so they may be shared; what holds them may not."""
    fork = copy.copy(verifier)
    for name, value in _held(verifier):
        setattr(fork, name, value)
    return fork


def _held(verifier: Verifier) -> Iterator[tuple[str, Any]]:
    for name, value in vars(verifier).items():
        if name == "_votes":
            yield name, {approval: list(votes) for approval, votes in value.items()}
        elif isinstance(value, Report):
            report = copy.copy(value)
            report.told, report.tail = list(value.told), list(value.tail)
            yield name, report
        elif isinstance(value, list | dict) and name not in ("_seal", "_header"):
            yield name, value.copy()
