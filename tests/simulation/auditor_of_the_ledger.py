"""The ledger of every second history, judged at its end by the offline verifier, which shares no code with the product.

Whatever planes crashed at and whatever was rolled back: every row of the ledger was entered with the digest of its
content, nothing else was, and each approval is where its last event says.
"""

from __future__ import annotations

from pathlib import Path

from fleetwarden.ledger_verifier import Verifier, of_sqlite

__all__ = ["findings_of_the_ledger"]


def findings_of_the_ledger(database: Path) -> list[str]:
    """What is wrong with it, in words; empty if nothing is."""
    verifier = Verifier()
    for item in of_sqlite(database):
        verifier.take(item)
    return [f"the ledger: {one}" for one in verifier.end().told]
