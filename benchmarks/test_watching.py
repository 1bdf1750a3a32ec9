"""Ten thousand watches under way on one plane: a round of looks, and what the watches add to the memory.

SQLite and a substrate of the same process, processor time only.  The baseline is the same look at the same services
alone.  Their pace is 15 s, so that a round's share of one core is its time by 15 s.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.fleets import at_rest
from fleetwarden.controllers.watch_opening import GRACE_S, open_watch
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.ports.watches import WatchDraft

WATCHES = 10_000
AT_ONCE = 500
POLL_S = 15
WINDOW_S = 300
ROUNDS = 5


def resident() -> float:
    """MiB of this process."""
    return float(psutil.Process().memory_info().rss) / 2**20


def opened(tx: Tx, names: list[str]) -> None:
    now = tx.now()
    for name in names:
        draft = WatchDraft(
            service=name,
            action_seq=None,
            kind="restart_service",
            source="reconciler",
            grace_until=now + int(GRACE_S * SECOND),
            deadline=now + WINDOW_S * SECOND,
            poll=POLL_S * SECOND,
        )
        open_watch(tx, draft, None)


@pytest.mark.benchmark(group="10,000 watches, SQLite")
def test_a_round_of_looks(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with at_rest(tmp_path, WATCHES) as bench:
        names = list(bench.files.current().fleet.services)
        services = list(bench.files.current().fleet.services.values())
        bench.sightings.look(services)
        before = resident()
        for first in range(0, WATCHES, AT_ONCE):
            bench.store.transact("open", lambda tx, at=first: opened(tx, names[at : at + AT_ONCE]))  # type: ignore[misc]
        bench.clock.advance(POLL_S)
        assert bench.watch() == WATCHES  # the first looks write what they saw

        def run() -> float:
            bench.clock.advance(POLL_S + 0.001)
            began = process_time()
            done = bench.watch()
            took = process_time() - began
            assert done == WATCHES
            return took

        took: list[float] = []
        benchmark.pedantic(lambda: took.append(run()), rounds=ROUNDS)
        added = resident() - before
        began = process_time()
        bench.sightings.look(services)
        alone = process_time() - began
        [one] = bench.store.read(lambda tx: tx.watches.list(Page(target="s0")))
        assert (one.status, one.made) == (WatchStatus.RUNNING, ROUNDS + 1)
    median = sorted(took)[len(took) // 2]
    benchmark.extra_info["processor seconds a round"] = round(median, 3)
    benchmark.extra_info["the look alone"] = round(alone, 3)
    benchmark.extra_info["ratio"] = round(median / alone, 1)
    benchmark.extra_info["percent of one core at 15 s"] = round(100 * median / POLL_S, 1)
    benchmark.extra_info["MiB added"] = round(added)
