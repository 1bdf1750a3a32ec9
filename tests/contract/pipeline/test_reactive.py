"""What wakes the autoscaler between its intervals, on both databases: work that moved, and samples that came in."""

from __future__ import annotations

import pytest

from fleetwarden.controllers import reactive
from fleetwarden.controllers.reactive import Reactive
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.stores import WorkDraft
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]


class Path:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.wakes = Wakes()
        self.reactive = Reactive(bench.store, self.wakes)

    def enqueue(self, key: str) -> None:
        draft = WorkDraft(kind="notify", key=key, payload={}, target="web")
        self.bench.store.transact("enqueue", lambda tx: tx.work.enqueue(draft))

    def claim(self) -> None:
        claimed = self.bench.store.transact("claim", lambda tx: tx.work.claim("h", ["notify"], 30 * SECOND, 10))
        assert claimed

    def woken(self) -> bool:
        """Whether this run woke a tick."""
        event = self.wakes.event(reactive.AUTOSCALER)
        event.clear()
        assert self.reactive.run() == event.is_set()
        return event.is_set()


@pytest.fixture
def path(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without a pace, since a real database's clock is not moved by a test."""
    monkeypatch.setattr(reactive, "PACE", 0)
    made = Path(bench)
    assert not made.woken()  # the first run only learns where the queue is
    return made


@pytest.mark.req("ASC-9")
def test_work_that_is_enqueued_or_claimed_wakes_one_tick_however_much_it_is(path: Path) -> None:
    assert not path.woken()
    for key in ("a", "b", "c"):
        path.enqueue(key)
    assert [path.woken(), path.woken()] == [True, False]
    path.claim()
    assert [path.woken(), path.woken()] == [True, False]


@pytest.mark.req("ASC-9", "SIG-8")
def test_a_pushed_sample_wakes_a_tick_and_the_reactive_run_itself(path: Path) -> None:
    own = path.wakes.event(reactive.CADENCE)
    assert not own.is_set()
    path.reactive.pushed()
    assert own.is_set()
    assert [path.woken(), path.woken()] == [True, False]


@pytest.mark.req("ASC-9")
def test_where_nothing_moves_nothing_is_woken(path: Path) -> None:
    for _ in range(20):
        assert not path.woken()


@pytest.mark.req("ASC-9")
def test_ticks_are_woken_five_seconds_apart_and_what_came_between_is_not_lost(sqlite: Database) -> None:
    path = Path(Bench(sqlite.open(), sqlite.clock))
    path.woken()
    path.enqueue("a")
    assert path.woken()
    path.enqueue("b")
    sqlite.clock.advance(4.9)
    assert not path.woken()
    sqlite.clock.advance(0.2)
    assert [path.woken(), path.woken()] == [True, False]


@pytest.mark.req("ASC-9")
def test_a_change_before_a_restart_or_under_another_leader_is_not_lost(path: Path) -> None:
    """Only a tick that has run moves the cursor on, whichever plane ran it."""
    ticks = [0]
    leads = Reactive(path.bench.store, path.wakes, ticks=lambda: ticks[0])
    path.enqueue("a")
    assert leads.run()
    restarted = Reactive(path.bench.store, path.wakes, ticks=lambda: ticks[0])  # before the tick it had woken
    assert restarted.run()
    ticks[0] += 1
    assert not restarted.run()
    assert not Reactive(path.bench.store, path.wakes, ticks=lambda: 0).run()  # a plane that does not lead knows it too


@pytest.mark.req("ASC-9", "SIG-8", "CON-17")
def test_a_sample_that_another_plane_took_wakes_the_one_that_leads_and_writes_nothing(path: Path) -> None:
    rung: list[str] = []
    taker = Wakes()
    taker.connect(rung.append, {}, ())
    Reactive(path.bench.store, taker).pushed()
    before = path.bench.store.read(lambda tx: tx.facts.get(reactive.CURSOR))
    path.wakes.connect(None, {}, [reactive.AUTOSCALER, reactive.NEWS])
    for name in rung:
        path.wakes.heard(name)
    assert [path.woken(), path.woken()] == [True, False]
    assert path.bench.store.read(lambda tx: tx.facts.get(reactive.CURSOR)) == before
