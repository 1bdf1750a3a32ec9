"""What must hold when several things happen at the same moment, and what may hang without harm."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleetwarden.app.administration import Administration
from fleetwarden.app.identity import local_admin
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.controllers.gate import Answer
from fleetwarden.controllers.loop import Loop, Subscription
from fleetwarden.domain.actions import ActionRequest, Evidence, Outcome, Tier
from fleetwarden.domain.lifecycles import OutboxState
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


def _many_restarts(bench: Bench, count: int) -> list[str]:
    names = [f"s{number:02}" for number in range(count)]
    bench.files.declare(
        fleet=a_fleet(*[a_service(name) for name in names]), policy=a_policy(rate=(9, 3600), blast=(100, 3600))
    )
    for name in names:
        bench.substrate.boot(name, 1)
    return names


def _restart(bench: Bench, name: str) -> None:
    request = ActionRequest(
        kind="restart_service", target=name, source="api", requested_by="eve", key=f"key-{name}", evidence=Evidence()
    )
    assert bench.gate.admit([request], fence=None)[0].answer is Answer.PREPARED


@pytest.mark.req("PRO-1")
def test_whoever_frees_the_last_place_wakes_the_executor_for_those_that_found_none(bench: Bench) -> None:
    begun: list[Callable[[], None]] = []
    bench.executor._runner = begun.append
    for name in _many_restarts(bench, 9):
        _restart(bench, name)
    fence, wake = bench.fence(EXECUTOR), bench.wakes.event(EXECUTOR)
    assert (bench.executor.run_prepared(fence), bench.executor.run_prepared(fence)) == (8, 0)
    wake.clear()
    begun.pop()()
    assert wake.is_set()
    assert bench.executor.run_prepared(fence) == 1
    for job in begun:
        job()
    assert {one.state for one in bench.records()} == {OutboxState.SUCCEEDED}
    assert bench.calls() == 9


@pytest.mark.req("PRO-1")
def test_eight_callers_that_all_drive_the_executor_call_every_record_once(bench: Bench) -> None:
    names = _many_restarts(bench, 24)
    fence, wake = bench.fence(EXECUTOR), bench.wakes.event(EXECUTOR)

    def act(some: list[str]) -> None:
        for name in some:
            _restart(bench, name)
            bench.executor.run_prepared(fence)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(act, [names[first::8] for first in range(8)]))
    while wake.is_set():  # as the loop does: a pass takes at most eight, and what it left has woken it
        wake.clear()
        bench.executor.run_prepared(fence)
    assert {one.state for one in bench.records()} == {OutboxState.SUCCEEDED}
    assert sorted(one.target for one in bench.substrate.log if one.what == "called") == names


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
