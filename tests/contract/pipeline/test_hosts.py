"""Planes of two hosts over one store: the leader proposes, the owning host's executor begins, and nobody else does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fleetwarden.controllers.heartbeat import Heartbeat, Wanted
from fleetwarden.controllers.placement import PlacedConfiguration
from fleetwarden.controllers.publishing import Publisher, published_elsewhere
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence, OutboxRecord
from fleetwarden.domain.errors import Fenced
from fleetwarden.domain.fleet import ObservedService, ProcessSpec, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import OutboxDraft, Tx
from fleetwarden.testing import FakeConfiguration, a_fleet, a_request, a_service, an_observation
from tests.contract.pipeline.conftest import LEASE_TTL_S, Bench
from tests.contract.store.records import decide

HERE, THERE = "h1", "h2"


def executor_lease(bench: Bench, host: str, ttl_s: float = LEASE_TTL_S) -> LeaseFence:
    held = bench.store.transact(
        "lease", lambda tx: tx.leases.acquire("action_executor", host, f"{host}:1", int(ttl_s * SECOND))
    )
    assert held is not None
    return held


def prepared(bench: Bench, host: str, ttl_s: float = 60.0) -> OutboxRecord:
    def run(tx: Tx) -> OutboxRecord:
        request = a_request(a_service("web", replicas=2), observed_at=0)
        decision = decide(tx, request)
        expires_at = tx.now() + int(ttl_s * SECOND)
        return tx.outbox.prepare(
            OutboxDraft(request=request, decision_seq=decision.seq, policy_digest="", host=host, expires_at=expires_at)
        )

    return bench.store.transact("prepare", run)


def begun(bench: Bench, host: str, fence: LeaseFence) -> OutboxRecord:
    record = prepared(bench, host)

    def run(tx: Tx) -> OutboxRecord:
        return tx.outbox.start(
            record.seq,
            fence=fence,
            horizon_at=tx.now(),
            final_if_acknowledged=True,
            negatives_by_person=False,
            request=record.request,
        )

    return bench.store.transact("start", run)


def state(bench: Bench, record: OutboxRecord) -> OutboxState:
    return bench.store.read(lambda tx: tx.outbox.get(record.seq)).state


def of_host(bench: Bench, host: str) -> None:
    """Make the bench's executor and recovery those of a host."""
    bench.executor._host = bench.recovery._host = host


@pytest.mark.req("RUN-1")
def test_an_executor_leaves_the_records_of_other_hosts_alone(bench: Bench) -> None:
    of_host(bench, HERE)
    record = prepared(bench, THERE)
    assert bench.executor.run_prepared(executor_lease(bench, HERE)) == 0
    assert state(bench, record) is OutboxState.PREPARED
    of_host(bench, THERE)
    assert bench.executor.run_prepared(executor_lease(bench, THERE)) == 1


@pytest.mark.req("RUN-1", "PRO-7")
def test_what_another_host_began_is_marked_when_its_lease_is_over_and_left_to_it_to_settle(bench: Bench) -> None:
    of_host(bench, HERE)
    theirs, mine = executor_lease(bench, THERE), executor_lease(bench, HERE)
    record = begun(bench, THERE, theirs)
    assert bench.recovery.run(mine) == 0
    assert state(bench, record) is OutboxState.RUNNING  # its lease lives: somebody may be at it
    bench.store.transact("release", lambda tx: tx.leases.release(theirs))
    assert bench.recovery.run(mine) == 0
    assert bench.recovery.run(mine) == 0
    assert state(bench, record) is OutboxState.RECOVERY_PENDING


@pytest.mark.req("RUN-1", "PRO-2")
def test_an_authorisation_that_a_silent_host_let_lapse_frees_its_target(bench: Bench) -> None:
    of_host(bench, HERE)
    record = prepared(bench, THERE, ttl_s=0.0)
    bench.clock.advance(1)
    bench.recovery.run(executor_lease(bench, HERE))
    ended = bench.store.read(lambda tx: tx.outbox.get(record.seq))
    assert (ended.state, "no plane of host h2 began it" in ended.note) == (OutboxState.ABANDONED, True)


@pytest.mark.req("RUN-1")
def test_a_service_goes_to_the_host_that_first_has_it_started_and_stays(bench: Bench) -> None:
    files = FakeConfiguration()
    files.declare(fleet=a_fleet(on_host("web", ""), on_host("pinned", "h9")))
    here, there = (PlacedConfiguration(files, bench.store, host=host) for host in (HERE, THERE))
    mine = here.current().fleet.services["web"]
    theirs = there.current().fleet.services["web"]
    assert (mine.process.host, theirs.process.host) == (HERE, THERE)  # type: ignore[union-attr]  # not claimed yet
    claim = lambda files, service: bench.store.transact("c", lambda tx: files.claim(tx, a_request(service)))  # noqa: E731
    assert claim(here, mine) is None
    assert claim(there, theirs) == "web belongs to host h1 by now"
    assert there.learn()
    assert not there.learn()
    assert there.current().fleet.services["web"].process.host == HERE  # type: ignore[union-attr]
    assert there.current().fleet.services["pinned"].process.host == "h9"  # type: ignore[union-attr]
    assert not there.is_here(there.current().fleet.services["web"])


def on_host(name: str, host: str) -> Service:
    return Service(name=name, process=ProcessSpec(command=("/srv/x",), host=host))


@pytest.mark.req("RUN-1", "OBS-2")
def test_a_leader_judges_what_other_hosts_published_and_never_what_is_too_old(bench: Bench) -> None:
    far = on_host("far", THERE)
    files = FakeConfiguration()
    files.declare(fleet=a_fleet(far))
    bench.store.transact("register", lambda tx: tx.hosts.register(THERE, "folder", "p2"))

    class Eyes:
        name, substrates = "eyes", frozenset({"process"})

        def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
            return {one.name: an_observation(one, at=at) for one in services}

    there = Publisher(
        bench.store,
        PlacedConfiguration(files, bench.store, host=THERE),
        Sightings(bench.store, [Eyes()], max_age_s=20),
        Wakes(),
        lambda services, look: None,
        host=THERE,
        holder="p2",
    )
    here = Sightings(bench.store, [], max_age_s=20, published=published_elsewhere(HERE))
    assert here.look([far]).seen == {}
    assert there.run() is True
    seen = here.look([far]).seen["far"]
    assert seen.ready == 1
    assert there.run() is False
    assert here.look([far]).seen["far"].observed_at > seen.observed_at
    short = Sightings(bench.store, [], max_age_s=0, published=published_elsewhere(HERE))
    assert short.look([far]).seen == {}


@pytest.mark.req("RUN-1")
def test_what_runs_on_a_host_since_before_there_were_others_belongs_to_it(bench: Bench) -> None:
    files = FakeConfiguration()
    files.declare(fleet=a_fleet(on_host("old", ""), on_host("new", "")))
    bench.store.transact("register", lambda tx: tx.hosts.register(THERE, "folder", "p2"))

    class Eyes:
        name, substrates = "eyes", frozenset({"process"})

        def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
            return {
                one.name: an_observation(one, at=at, instances=None if one.name == "old" else []) for one in services
            }

    looks = Sightings(bench.store, [Eyes()], max_age_s=20)
    placed = PlacedConfiguration(files, bench.store, host=THERE)
    Publisher(bench.store, placed, looks, Wakes(), lambda services, look: None, host=THERE, holder="p2").run()
    assert bench.store.read(lambda tx: tx.placements.all()) == {"old": THERE}


@pytest.mark.req("RUN-1", "RUN-17")
def test_a_heartbeat_keeps_what_is_held_and_wakes_who_waits_for_what_lapsed(bench: Bench) -> None:
    wakes = Wakes()
    wakes.event("reconcile")
    mine = Heartbeat(bench.store, wakes, holder="p1", ttl_s=60)
    theirs = Heartbeat(bench.store, wakes, holder="p2", ttl_s=60)
    held = bench.store.transact("lease", lambda tx: tx.leases.acquire("reconcile", "0", "p1", 60 * SECOND))
    holding = [Wanted(name="reconcile", shard="0", fence=held)]
    waiting = [Wanted(name="reconcile", shard="0", fence=None)]
    assert mine.beat(holding).extended == (held,)
    assert theirs.beat(waiting).lost == ()
    assert not wakes.event("reconcile").is_set()
    assert held is not None
    bench.store.transact("release", lambda tx: tx.leases.release(held))
    theirs.beat(waiting)
    assert wakes.event("reconcile").is_set()
    taken = bench.store.transact("lease", lambda tx: tx.leases.acquire("reconcile", "0", "p2", 60 * SECOND))
    assert mine.beat(holding).lost == ("reconcile",)
    with pytest.raises(Fenced):
        bench.store.transact("write", lambda tx: tx.leases.check(held))
    assert theirs.beat([Wanted(name="reconcile", shard="0", fence=taken)]).extended == (taken,)


@pytest.mark.req("RUN-1", "RUN-17")
def test_a_heartbeat_that_comes_too_late_holds_nothing(bench: Bench) -> None:
    """Its lease lapsed and nobody took it: what was begun under the old token must not go on as if nothing had been."""
    beats = Heartbeat(bench.store, Wakes(), holder="p1", ttl_s=60)
    held = bench.store.transact("lease", lambda tx: tx.leases.acquire("reconcile", "0", "p1", 0))
    bench.clock.advance(1)
    assert beats.beat([Wanted(name="reconcile", shard="0", fence=held)]).lost == ("reconcile",)
    assert bench.store.read(lambda tx: tx.leases.list()) == []
