"""The ledger at a terminal: verified beside a running plane, without one, and by a file that knows nothing of us."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fleetwarden import ledger_verifier
from tests.acceptance.cli.world import World, eventually


@pytest.mark.req("RUN-8")
def test_a_changed_row_is_named_and_an_untouched_ledger_is_sound(world: World) -> None:
    plane = world.up(until="Try:")
    eventually(lambda: len(world.pids("web")) == 2)
    eventually(lambda: world.json("ledger", "verify")["tail"] == [])
    running = world.json("ledger", "verify")
    assert running["sound"]
    assert running["sealed"] > 5
    assert running["checkpoints"] == 1
    assert running["unsigned"] == 0
    [decision, *_] = world.ask("/decisions")["items"]
    shown = world.run("decisions", "show", decision["id"]).out
    assert "rule text" in shown
    assert "tier: auto" in shown
    assert "tier: auto" in world.run("ledger", "text", decision["policy_digest"]).out
    assert plane.ends(signal.SIGTERM) == 0

    stopped = world.run("ledger", "verify")
    assert stopped.code == 0
    assert "every sealed row is as it was sealed" in stopped.out
    assert world.run("ledger", "export", "ledger.jsonl").code == 0
    again = world.run("ledger", "export", "ledger.jsonl")
    assert again.code == 1
    assert "exists already" in again.err
    verifier = [sys.executable, "-I", str(Path(ledger_verifier.__file__)), "ledger.jsonl", "--key"]
    key = str(world.data / "ledger.key")
    offline = subprocess.run([*verifier, key], cwd=world.folder, capture_output=True, text=True, check=False)
    assert offline.returncode == 0, offline
    assert f"{running['sealed']} rows under" not in offline.stderr

    connection = sqlite3.connect(world.data / "fleetwarden.db")
    connection.execute("UPDATE decisions SET reason = 'because' WHERE seq = 1")
    connection.commit()
    connection.close()
    tampered = world.run("ledger", "verify")
    assert tampered.code == 1
    assert "decisions 1 (position" in tampered.out
    assert "was changed" in tampered.out
