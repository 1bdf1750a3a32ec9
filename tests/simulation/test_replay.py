"""A seed is a history: the same one in this process, after others, and in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.history import run

ROOT = Path(__file__).resolve().parents[2]
DIGEST = """
from tests.simulation.history import run
from tests.simulation.telling import quiet
quiet()
print(run({seed}).digest)
"""


@pytest.mark.parametrize("seed", [3, 7, 8, 12])
def test_a_seed_repeats_exactly(seed: int) -> None:
    first = run(seed)
    run(seed + 1)
    assert run(seed).digest == first.digest


def test_seeds_differ() -> None:
    assert len({run(seed).digest for seed in range(5)}) == 5


def test_a_seed_repeats_in_another_process_whatever_its_hashes_are() -> None:
    digests = [
        subprocess.run(
            [sys.executable, "-c", DIGEST.format(seed=7)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hashes in ("1", "2")
    ]
    assert digests == [run(7).digest] * 2


def test_a_replay_tells_the_whole_history() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", "3"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "--- calm" in told
    assert told.rstrip().endswith("every promise held")
