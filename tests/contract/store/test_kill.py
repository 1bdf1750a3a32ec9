"""A process is killed in the middle of its work; what it was told is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetwarden.ports.stores import Page

ROOT = Path(__file__).resolve().parents[3]
ENOUGH = 400


@pytest.mark.req("AUT-20", "RUN-1")
def test_after_kill_9_every_acknowledged_transaction_is_there(database):
    database.open().close()
    command = [sys.executable, "-m", "tests.contract.store.writer_process", database.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [int(next(writer.stdout)) for _ in range(ENOUGH)]
        writer.kill()
        rest = writer.stdout.read().split("\n")
    acknowledged += [int(line) for line in rest[:-1]]
    store, before = database.open(), None
    there: set[int] = set()
    while page := store.read(lambda tx, before=before: tx.journal.list(Page(limit=500, before=before))):
        there.update(entry.seq for entry in page)
        before = page[-1].seq
    assert len(acknowledged) == len(set(acknowledged)) >= ENOUGH
    assert set(acknowledged) <= there
    store.transact("goes on", lambda tx: tx.journal.write(topic="notice", actor="test", summary="after"))
