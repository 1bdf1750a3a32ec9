"""Seeded histories of the real controllers over the real store keep every promise.

`make test` runs a fixed small set; with FLEETWARDEN_TEST_DEPTH=full it is ten thousand, in blocks that run side by
side.  FLEETWARDEN_HISTORIES names another number.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.history import run
from tests.simulation.telling import told

FULL = os.environ.get("FLEETWARDEN_TEST_DEPTH", "quick") == "full"
HISTORIES = int(os.environ.get("FLEETWARDEN_HISTORIES") or (10_000 if FULL else 120))
BLOCK = 100 if FULL else 20
SHOWN = 3  # failing histories that one block tells in full


@pytest.mark.req(
    "AUT-2", "AUT-4", "AUT-5", "AUT-6", "AUT-9", "AUT-11", "AUT-13", "AUT-18", "AUT-23",
    "AUT-7", "AUT-8", "AUT-10", "AUT-14", "AUT-15", "AUT-16", "AUT-20", "AUT-24",
    "PRO-1", "PRO-3", "PRO-5", "PRO-6", "PRO-7", "PRO-8", "PRO-9", "PRO-10", "PRO-11", "PRO-12", "PRO-14", "PRO-15",
    "POL-3", "POL-6", "POL-7", "POL-8", "POL-12", "POL-21",
    "EVT-1", "EVT-2", "EVT-5", "PLB-1", "PLB-2", "PLB-3", "PLB-4", "PLB-5", "PLB-7",
)  # fmt: skip
@pytest.mark.parametrize("first", range(0, HISTORIES, BLOCK))
def test_every_promise_holds_in_every_history(first: int) -> None:
    failed = [verdict for seed in range(first, first + BLOCK) if (verdict := run(seed)).findings]
    assert not failed, "\n\n".join(told(verdict) for verdict in failed[:SHOWN])
