"""The texts that decisions rest on: kept in the transaction of the first decision under them.

A decision names its policy by digest; the text behind the digest is written no later than the decision, so that a rule
can always be read as it was.  That a text came into force is a line of the journal, and so under seal.  Nothing is
written while the same texts are in force.
"""

from __future__ import annotations

from threading import Lock

from fleetwarden.ports.configuration import Configuration, SourceText
from fleetwarden.ports.stores import Tx

__all__ = ["KeptTexts"]


class KeptTexts:
    """Remembers which texts this plane has kept.  Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: frozenset[tuple[str, str, str]] = frozenset()

    def keep(self, tx: Tx, configuration: Configuration) -> None:
        """Keep what is in force and was not before.  Part of the caller's transaction."""
        in_force = {(one.kind, one.name, one.digest): one for one in configuration.texts}
        fresh = [one for key, one in in_force.items() if key not in self._kept]
        for one in fresh:
            _write(tx, one)
        if fresh:
            tx.after_commit(lambda: self._remember(frozenset(in_force)))

    def _remember(self, kept: frozenset[tuple[str, str, str]]) -> None:
        """Only what is in force now: a text that comes back is told again."""
        with self._lock:
            self._kept = kept


def _write(tx: Tx, one: SourceText) -> None:
    digest = tx.texts.keep(kind=one.kind, name=one.name, body=one.body)
    tx.journal.write(
        topic="configuration",
        actor="plane",
        subject=one.name,
        summary=f"decisions rest on the {one.kind} {one.name} as of {digest}",
        detail={"kind": one.kind, "digest": digest},
    )
