"""Overrides of services, changes by others and what we left, on both databases."""

from __future__ import annotations

import pytest

from fleetwarden.domain.desired import Baseline, ForeignField, ForeignState
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound
from fleetwarden.domain.fleet import DesiredState
from fleetwarden.ports.desired import ForeignDraft, OverrideDraft
from fleetwarden.ports.stores import Page


def wish(service="web", **fields):
    return OverrideDraft(**{"service": service, "replicas": 3, "state": None, "reason": "load", "by": "ada", **fields})


def change(service="web", **fields):
    return ForeignDraft(
        **{"service": service, "field": ForeignField.REPLICAS, "before": "2", "after": "5", "writer": "joe", **fields}
    )


@pytest.mark.req("AUT-12")
def test_an_override_stands_until_it_is_ended_and_survives_a_restart(store, database):
    made = store.transact("put", lambda tx: tx.service_overrides.put(wish(state=DesiredState.RUNNING)))
    assert (made.id, made.words, made.by, made.until) == (f"O-{made.seq}", "running with 3 replicas", "ada", None)
    store.close()
    again = database.open()
    assert again.read(lambda tx: tx.service_overrides.standing()) == [made]
    ended = again.transact("end", lambda tx: tx.service_overrides.end(made.seq, how="cleared", by="bob"))
    assert (ended.ended_by, ended.ended_how) == ("bob", "cleared")
    assert again.read(lambda tx: tx.service_overrides.standing()) == []
    with pytest.raises(Conflict, match="cleared"):
        again.transact("end", lambda tx: tx.service_overrides.end(made.seq, how="cleared", by="eve"))
    with pytest.raises(NotFound, match=f"O-{made.seq + 98}"):
        again.transact("end", lambda tx: tx.service_overrides.end(made.seq + 98, how="cleared", by="eve"))


@pytest.mark.req("AUT-12")
def test_the_newest_override_of_a_service_is_the_only_one(store):
    store.transact("put", lambda tx: tx.service_overrides.put(wish("web")))
    store.transact("put", lambda tx: tx.service_overrides.put(wish("api")))
    newer = store.transact("put", lambda tx: tx.service_overrides.put(wish("web", replicas=0, by="bob")))
    assert [one.service for one in store.read(lambda tx: tx.service_overrides.standing())] == ["api", "web"]
    kept, old = store.read(lambda tx: tx.service_overrides.list(Page(target="web")))
    assert kept == newer
    assert (old.ended_how, old.ended_by) == ("replaced", "bob")


@pytest.mark.req("AUT-12")
def test_an_override_past_its_end_does_not_stand_whether_or_not_that_was_written_down(store, database):
    def run(tx):
        tx.service_overrides.put(wish("api", until=tx.now() + 1_000))
        return tx.service_overrides.put(wish("web", until=tx.now() + 3_600_000_000))

    longer = store.transact("put", run)
    database.lapse()
    assert store.read(lambda tx: tx.service_overrides.standing()) == [longer]
    assert [one.service for one in store.read(lambda tx: tx.service_overrides.due())] == ["api"]


@pytest.mark.req("REC-9")
def test_a_held_change_stands_until_its_hold_ends_and_an_adopted_one_for_good(store, database):
    def run(tx):
        short = tx.foreign.add(change("api", hold_until=tx.now() + 1_000))
        return short, tx.foreign.add(change("web", field=ForeignField.STATE, before="running", after="stopped"))

    short, stop = store.transact("add", run)
    assert (short.id, stop.id) == (f"C-{short.seq}", f"C-{short.seq + 1}")
    database.lapse()
    assert store.read(lambda tx: tx.foreign.standing()) == [stop]
    assert store.read(lambda tx: tx.foreign.due()) == [short]
    kept = store.transact(
        "adopt",
        lambda tx: tx.foreign.move(
            short.seq, came_from=ForeignState.HELD, to=ForeignState.ADOPTED, by="ada", note="right so"
        ),
    )
    assert (kept.hold_until, kept.ended_at, kept.note) == (None, None, "right so")
    assert store.read(lambda tx: tx.foreign.standing()) == [kept, stop]
    with pytest.raises(IllegalMove, match="adopted, not held"):
        store.transact(
            "lapse",
            lambda tx: tx.foreign.move(short.seq, came_from=ForeignState.HELD, to=ForeignState.LAPSED, by="plane"),
        )
    listed = store.read(lambda tx: tx.foreign.list(Page(target="web", state="held", kind="state")))
    assert listed == [stop]


@pytest.mark.req("REC-9")
def test_what_we_left_is_kept_for_each_service(store, database):
    first = Baseline(service="web", replicas=2, version="1", stopped=False, at=7)
    store.transact("put", lambda tx: tx.baselines.put(first))
    newer = Baseline(service="web", at=9)
    other = Baseline(service="api", replicas=0, at=8)
    store.transact("put", lambda tx: [tx.baselines.put(one) for one in (newer, other)])
    store.close()
    again = database.open()
    assert again.read(lambda tx: tx.baselines.all()) == {"web": newer, "api": other}
    assert again.read(lambda tx: (tx.baselines.of("api"), tx.baselines.of("nobody"))) == (other, None)
