"""Events on both databases: kept once, correlated with their alerts, each with one step of work."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.errors import NotFound, Refused
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, StoredEvent
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.events import LOG_ENTRIES_MAX, TRIAGE, Receipt
from fleetwarden.ports.stores import Page, Store
from tests.contract.store.conftest import Database
from tests.unit.events.test_correlation import an_event


def put(store: Store, *events: FleetEvent) -> list[Receipt]:
    return list(store.transact("events", lambda tx: tx.events.put(events)))


def get(store: Store, seq: int) -> StoredEvent:
    return store.read(lambda tx: tx.events.get(seq))


def now(store: Store) -> int:
    return store.read(lambda tx: tx.now())


def firing(at: int, **over: Any) -> FleetEvent:
    return an_event(starts_at=at, **over)


def over(at: int, ends: int, **fields: Any) -> FleetEvent:
    return an_event(Phase.RESOLVED, starts_at=at, ends_at=ends, **fields)


@pytest.mark.req("EVT-1", "EVT-2")
def test_a_new_event_is_kept_with_a_step_and_a_second_delivery_is_counted(store: Store) -> None:
    start = now(store) - 60 * SECOND
    event = firing(start, labels={"job": "web"}, summary="web is down")
    [first] = put(store, event)
    assert not first.duplicate
    assert first.work_seq is not None
    work = store.read(lambda tx: tx.work.get(first.work_seq or 0))
    assert (work.kind, work.payload, work.target) == (TRIAGE, {"event": first.seq}, "web")
    [second] = put(store, event)
    assert (second.duplicate, second.seq, second.work_seq) == (True, first.seq, None)
    kept = get(store, first.seq)
    assert (kept.event, kept.repeats, kept.open) == (event, 1, True)
    assert len(store.read(lambda tx: tx.work.list(Page(kind=TRIAGE)))) == 1


@pytest.mark.req("EVT-1", "OBS-3")
def test_all_of_a_batch_is_placed_in_its_order(store: Store) -> None:
    start = now(store) - 600 * SECOND
    made = put(
        store,
        firing(start),
        over(start, start + SECOND),
        firing(start),
        firing(start + 5 * SECOND),
        firing(start, fingerprint="f2", service="db"),
        over(start, start + SECOND),
    )
    assert [one.duplicate for one in made] == [False, False, True, False, False, True]
    first, ended, same, again, _, twice = made
    assert (same.seq, twice.seq) == (first.seq, ended.seq)
    assert get(store, first.seq).ended_by == ended.seq
    assert get(store, first.seq).ended_at == start + SECOND
    assert get(store, ended.seq).closes == first.seq
    assert get(store, again.seq).flap
    assert {one.service: one.firing for one in store.read(lambda tx: tx.events.alerts(["web", "db"]))} == {
        "web": True,
        "db": True,
    }
    assert store.read(lambda tx: tx.events.flaps(["web", "db"], 0)) == {"web": 1}


@pytest.mark.req("OBS-3")
def test_an_outage_that_begins_again_with_its_first_start_is_an_event_of_its_own(sqlite: Database) -> None:
    store = sqlite.open()
    start = now(store) - 60 * SECOND
    [first] = put(store, firing(start))
    put(store, over(start, start + SECOND))
    sqlite.clock.advance(400)
    [again] = put(store, firing(start))
    assert again.work_seq is not None
    assert get(store, again.seq).flap
    assert [get(store, one.seq).open for one in (first, again)] == [False, True]
    [end] = put(store, over(start, now(store)))
    assert get(store, again.seq).ended_by == end.seq
    assert store.read(lambda tx: tx.events.outages("web", 0)) == 2


@pytest.mark.req("OBS-3")
def test_one_alerts_resolve_does_not_end_anothers_firing(store: Store) -> None:
    start = now(store) - 60 * SECOND
    put(store, firing(start), firing(start, fingerprint="f2"), over(start, start + SECOND))
    assert sorted(one.firing for one in store.read(lambda tx: tx.events.alerts(["web"]))) == [False, True]


@pytest.mark.req("OBS-3", "PLB-2")
def test_reminders_and_late_ones_are_no_outages(store: Store) -> None:
    start = now(store) - 600 * SECOND
    late = firing(start - SECOND)
    made = put(
        store,
        firing(start),
        late,
        firing(start, fingerprint="k", repeating=True),
        firing(start + SECOND, fingerprint="k", repeating=True),
        firing(start, fingerprint="p", class_=EventClass.PRESSURE),
    )
    assert [one.duplicate for one in made] == [False] * 5
    assert get(store, made[3].seq).repeat_of == made[2].seq
    assert get(store, made[1].seq).late
    found = store.read(lambda tx: tx.events.down_events("web", 0))
    assert [one.seq for one in found] == [made[2].seq, made[0].seq]
    assert store.read(lambda tx: tx.events.down_events("web", tx.now() + SECOND)) == []
    put(store, over(start, start + 9 * SECOND, fingerprint="k"))
    assert [get(store, one.seq).ended_at for one in made[2:4]] == [start + 9 * SECOND] * 2


@pytest.mark.req("OBS-3", "PLB-2")
def test_alerts_that_are_told_at_once_are_one_outage(store: Store) -> None:
    start = now(store) - 600 * SECOND
    put(store, *(firing(start, fingerprint=f"instance {number}") for number in range(3)))
    assert store.read(lambda tx: tx.events.outages("web", 0)) == 1
    put(store, over(start, start + SECOND, fingerprint="instance 1"))
    put(store, firing(start + 2 * SECOND, fingerprint="instance 1"))
    assert store.read(lambda tx: tx.events.outages("web", 0)) == 2
    assert store.read(lambda tx: tx.events.outages("db", 0)) == 0
    assert store.read(lambda tx: tx.events.outages("web", tx.now() + SECOND)) == 0


@pytest.mark.req("PLB-4")
def test_a_remediation_log_grows_up_to_its_limit(store: Store) -> None:
    [one] = put(store, firing(now(store)))
    kept = store.transact("log", lambda tx: tx.events.append_log(one.seq, {"step": "confirm"}, status="running"))
    assert (kept.remediation_status, kept.remediation_log[0]["step"]) == ("running", "confirm")
    assert kept.remediation_log[0]["at"].endswith("Z")
    kept = store.transact("status", lambda tx: tx.events.set_status(one.seq, "done"))
    assert (kept.remediation_status, len(kept.remediation_log)) == ("done", 1)

    def fill(tx: Any) -> None:
        for number in range(LOG_ENTRIES_MAX):
            tx.events.append_log(one.seq, {"step": str(number)})

    with pytest.raises(Refused, match="limit"):
        store.transact("fill", fill)
    assert len(get(store, one.seq).remediation_log) == 1
    with pytest.raises(NotFound, match="no event"):
        get(store, one.seq + 1000)


@pytest.mark.req("EVT-1")
def test_what_does_not_fit_keeps_nothing_of_its_batch(store: Store) -> None:
    with pytest.raises(Refused):
        put(store, firing(5), firing(6, fingerprint="x" * 5000))
    assert store.read(lambda tx: tx.events.list(Page())) == []
    assert store.read(lambda tx: tx.work.list(Page())) == []


@pytest.mark.req("EVT-1")
def test_events_are_listed_newest_first_by_service_source_and_phase(store: Store) -> None:
    start = now(store) - 60 * SECOND
    made = put(store, firing(start), over(start, start + 1), firing(start, service=None, source="grafana"))
    seqs = [one.seq for one in made]

    def listed(**page: Any) -> list[int]:
        return [one.seq for one in store.read(lambda tx: tx.events.list(Page(**page)))]

    assert listed() == seqs[::-1]
    assert listed(limit=1) == [seqs[2]]
    assert listed(before=seqs[2], limit=1) == [seqs[1]]
    assert listed(target="web") == [seqs[1], seqs[0]]
    assert listed(kind="grafana") == [seqs[2]]
    assert listed(state="resolved") == [seqs[1]]
    assert store.read(lambda tx: tx.events.counts()) == {("alertmanager", "critical"): 2, ("grafana", "critical"): 1}


@pytest.mark.req("EVT-1")
def test_old_events_go_a_bounded_number_at_a_time_and_their_numbers_are_never_given_again(store: Store) -> None:
    made = put(store, *(firing(at, fingerprint=f"f{at}") for at in range(1, 4)))
    oldest = store.read(lambda tx: tx.events.oldest())
    assert oldest is not None
    assert store.transact("prune", lambda tx: tx.events.prune(oldest)) == 0
    assert store.transact("prune", lambda tx: tx.events.prune(oldest + 1, limit=2)) == 2
    assert store.transact("prune", lambda tx: tx.events.prune(oldest + 1)) == 1
    assert store.read(lambda tx: (tx.events.oldest(), tx.events.alerts(["web"]))) == (None, [])
    [again] = put(store, firing(9))
    assert again.seq > max(one.seq for one in made)


@pytest.mark.req("EVT-1")
def test_many_rows_are_numbered_above_an_epochs_floor(sqlite: Any) -> None:
    store = sqlite.open()
    store._connection.execute("INSERT INTO number_floors (name, floor) VALUES ('events', 500), ('work_items', 700)")
    first = put(store, *(firing(at, fingerprint=f"f{at}") for at in range(1, 4)))
    second = put(store, firing(9))
    assert [one.seq for one in (*first, *second)] == [501, 502, 503, 504]
    assert [one.work_seq for one in (*first, *second)] == [701, 702, 703, 704]
