"""What must hold when several things happen at the same moment, and what may hang without harm."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fleetwarden.app.administration import Administration
from fleetwarden.app.identity import local_admin
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.loop import Loop, Subscription
from fleetwarden.domain.actions import Outcome, Tier
from fleetwarden.testing import a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import Bench


class Meeting:
    """A store in which two first commits wait for each other before they commit, if anything lets them meet."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._barrier = threading.Barrier(2, timeout=0.5)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, name: str, fn: Callable[[Any], Any]) -> Any:
        def run(tx: Any) -> Any:
            value = fn(tx)
            if name == "commit_1":
                with contextlib.suppress(threading.BrokenBarrierError):
                    self._barrier.wait()
            return value

        return self._store.transact(name, run)


@pytest.mark.req("POL-3", "POL-6", "PRO-1")
def test_grants_carried_out_side_by_side_cannot_overrun_the_blast_radius(bench: Bench) -> None:
    names = ["a", "b", "c", "d"]
    bench.files.declare(
        fleet=a_fleet(*[a_service(name) for name in names]), policy=a_policy(Tier.APPROVAL_REQUIRED, blast=(1, 3600))
    )
    for name in names:
        bench.substrate.boot(name, 1)
        bench.substrate.crash(name, 0)
    bench.look()
    for one in bench.approvals():
        bench.desk.grant(one.seq, by="ada", reason="go")
    bench.look()
    bench.worker.run()
    fence = bench.fence(EXECUTOR)
    bench.store = Meeting(bench.store)
    bench.build()
    threads = [threading.Thread(target=bench.executor.execute, args=(one, fence)) for one in bench.records()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(threads) == 4
    assert bench.calls() == 1


@pytest.mark.req("POL-12", "PRO-1")
def test_the_answer_to_a_freeze_names_what_may_still_land(bench: Bench) -> None:
    class Silent:
        def __getattr__(self, name: str) -> object:
            return getattr(bench.substrate, name)

        def actuate(self, call: object) -> Outcome:
            return Outcome(ok=False, unknown_outcome=True, code="timeout", detail="no answer")

    bench.build(Silent())  # type: ignore[arg-type]
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    desk = Administration(bench.store, bench.recovery, bench.files.freeze_file)
    answer = desk.freeze(local_admin(), reason="stop", for_s=None)
    assert answer["in_flight"] == [bench.records()[0].id]


@pytest.mark.req("HLT-1", "ORC-1")
@pytest.mark.parametrize("vital", [True, False])
def test_only_what_is_vital_makes_the_plane_unwell_when_it_hangs(bench: Bench, vital: bool) -> None:
    hangs = Subscription(name="slow", interval_s=1.0, run=lambda _: None, leased=False, vital=vital)
    loop = Loop(
        bench.clock, bench.ids, bench.store, bench.wakes, bench.supervision, [hangs], holder="p1", lease_ttl_s=15.0
    )
    bench.look()
    loop.tick("slow")
    bench.clock.advance(31)
    loop.watch_over()
    assert "no pass for" in loop.states["slow"].late
    assert bench.supervision.evidence().convergence_ready is not vital


@pytest.mark.req("ORC-1")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_controller_thread_that_died_is_started_again_and_counted(bench: Bench) -> None:
    done = threading.Event()

    def dies(_: object) -> None:
        done.set()
        raise SystemExit  # what no pass may do, and what must not end the plane

    one = Subscription(name="frail", interval_s=60.0, run=dies, leased=False)
    loop = Loop(
        bench.clock, bench.ids, bench.store, bench.wakes, bench.supervision, [one], holder="p1", lease_ttl_s=15.0
    )
    loop.start()
    assert done.wait(10)
    loop._threads["frail"].join(10)
    assert loop.watch_over() == ["frail"]
    assert loop.states["frail"].restarts == 1
    loop.stop(10)
