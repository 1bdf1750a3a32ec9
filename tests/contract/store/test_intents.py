"""Scale intents on both databases: one revision for whoever comes first, and only the moves that exist."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.lifecycle import IntentOperation, ScaleIntent, SignalSummaryRef, intent_id
from fleetwarden.domain.errors import Conflict, FleetError, IllegalMove, NotFound, Refused, StaleRevision
from fleetwarden.domain.lifecycles import INTENT, IntentState
from fleetwarden.domain.sealing import content_digest
from fleetwarden.ports.intents import Convergence, IntentRow, NextRevision
from fleetwarden.ports.stores import Page, Tx
from tests.contract.store.records import (
    carried_out,
    decide,
    decision_draft,
    file_approval,
    finish,
    prepare,
    request,
    start,
)
from tests.contract.store.test_races import race

FENCE = LeaseFence(cadence="fleet_autoscaler", shard="0", holder="plane-1", token=3)
S = IntentState


def intent(service: str = "web", expected: int = 0, desired: int = 4, **changed: Any) -> ScaleIntent:
    operation = changed.pop("operation", IntentOperation.SCALE)
    name = intent_id(service, "native", expected, operation, desired)
    values: dict[str, Any] = {
        "service": service,
        "unit": service,
        "controller_mode": "native",
        "intent_id": name,
        "idempotency_key": name,
        "expected_revision": expected,
        "revision": expected + 1,
        "operation": operation,
        "desired_replicas": desired,
        "observed_replicas": 3,
        "signal": SignalSummaryRef(digest="sha256:0", window_start=1, window_end=2),
        "fence": FENCE,
        "decision_id": "" if operation is IntentOperation.OVERRIDE else "D-1",
        "created_at": 5,
    }
    return ScaleIntent(**{**values, **changed})


def put(tx: Tx, wanted: ScaleIntent | None = None, state: IntentState = S.INTENT_ACCEPTED, **links: Any) -> IntentRow:
    wanted = wanted or intent()
    decided = decide(tx, request(wanted.service, "scale_service", params={"replicas": wanted.desired_replicas}))
    return tx.intents.put(wanted, state=state, decision_seq=decided.seq, **links)


def brought_to(tx: Tx, state: IntentState, service: str = "web") -> IntentRow:
    """A row in that state, by legal moves."""
    ways = {
        S.PROPOSED: [],
        S.INTENT_ACCEPTED: [],
        S.RECOVERY_PENDING: [S.RECOVERY_PENDING],
        S.EXECUTED: [S.EXECUTED],
        S.OBSERVED: [S.EXECUTED, S.OBSERVED],
        S.VERIFIED: [S.EXECUTED, S.OBSERVED, S.VERIFIED],
        S.SIMULATED: [S.SIMULATED],
        S.FAILED: [S.FAILED],
        S.REJECTED: [S.REJECTED],
        S.SUPERSEDED: [S.SUPERSEDED],
    }
    row = put(tx, intent(service), S.PROPOSED if state is S.PROPOSED else S.INTENT_ACCEPTED)
    for to in ways[state]:
        row = tx.intents.move(row, to)
    return row


@pytest.mark.req("AUT-3", "AUT-4")
def test_a_put_is_kept_whole_and_the_next_rests_on_it(store):
    first = store.transact("put", put)
    kept = store.read(lambda tx: tx.intents.get(first.seq))
    assert kept == first
    assert (kept.intent.revision, kept.state, kept.accepted_at is not None) == (1, S.INTENT_ACCEPTED, True)
    store.transact("move", lambda tx: tx.intents.move(tx.intents.get(first.seq), S.SUPERSEDED))
    second = store.transact("put", lambda tx: put(tx, intent(expected=1, desired=5), S.PROPOSED))
    assert (second.intent.revision, second.accepted_at) == (2, None)
    assert store.read(lambda tx: tx.intents.latest("web")) == second
    assert store.read(lambda tx: tx.intents.latest_of(["web", "api"])) == {"web": second}
    assert store.read(lambda tx: tx.intents.by_intent_id(second.intent.intent_id)) == second


@pytest.mark.req("AUT-4")
@pytest.mark.parametrize("expected", [1, 2, 7])
def test_a_put_on_another_revision_than_the_latest_is_stale(store, expected):
    if expected != 1:
        store.transact("put", lambda tx: tx.intents.move(put(tx), S.REJECTED))
    with pytest.raises(StaleRevision, match="no longer the latest"):
        store.transact("put", lambda tx: put(tx, intent(expected=expected)))


@pytest.mark.req("AUT-4")
def test_putting_the_identical_intent_again_changes_nothing_and_returns_it_as_it_stands(store):
    first = store.transact("put", put)
    moved = store.transact("move", lambda tx: tx.intents.move(first, S.RECOVERY_PENDING))
    assert store.transact("put", put) == moved
    with pytest.raises(Conflict, match="another key"):
        store.transact("put", lambda tx: put(tx, intent(idempotency_key="other")))


@pytest.mark.req("AUT-4", "AUT-20")
def test_of_many_that_read_the_same_revision_one_is_accepted_and_the_rest_are_stale(store):
    ends = race(store, *[lambda tx, n=n: put(tx, intent(desired=n)) for n in range(2, 8)])
    accepted = [one for one in ends if isinstance(one, IntentRow)]
    assert len(accepted) == 1
    assert [type(one) for one in ends if isinstance(one, FleetError)] == [StaleRevision] * 5
    assert store.read(lambda tx: tx.intents.latest("web")) == accepted[0]


@pytest.mark.req("AUT-4")
def test_of_many_that_put_the_identical_intent_all_get_the_one_row(store):
    ends = race(store, *[put] * 5)
    assert len({one.seq for one in ends}) == 1


@pytest.mark.req("AUT-5")
@pytest.mark.parametrize(("came_from", "to"), list(product(S, S)))
def test_every_move_of_the_table_is_made_and_every_other_one_raises(store, came_from, to):
    row = store.transact("bring", lambda tx: brought_to(tx, came_from))
    if to in INTENT.moves.get(came_from, ()):
        assert store.transact("move", lambda tx: tx.intents.move(row, to)).state is to
    else:
        with pytest.raises(IllegalMove):
            store.transact("move", lambda tx: tx.intents.move(row, to))
        assert store.read(lambda tx: tx.intents.get(row.seq)) == row


@pytest.mark.req("AUT-5")
def test_a_row_that_has_moved_on_is_not_moved_by_who_read_it_before(store):
    row = store.transact("put", put)
    store.transact("move", lambda tx: tx.intents.move(row, S.EXECUTED))
    for change in (
        lambda tx: tx.intents.move(row, S.FAILED),
        lambda tx: tx.intents.link(row, action_seq=1),
        lambda tx: tx.intents.note_convergence(row, Convergence(observed_at=1)),
    ):
        with pytest.raises(IllegalMove, match="not intent_accepted any more"):
            store.transact("late", change)


@pytest.mark.req("PRO-2")
def test_nothing_is_put_while_the_latest_ones_record_is_running_or_unknown(store):
    def begin(tx: Tx) -> IntentRow:
        row = put(tx)
        record = start(tx, prepare(tx, request("web", "scale_service", params={"replicas": 4})))
        return tx.intents.link(row, action_seq=record.seq)

    row = store.transact("begin", begin)
    with pytest.raises(Conflict, match="being carried out"):
        store.transact("put", lambda tx: put(tx, intent(expected=1, desired=5)))
    store.transact("unknown", lambda tx: tx.intents.move(row, S.RECOVERY_PENDING))
    with pytest.raises(Conflict, match="outcome is unknown"):
        store.transact("put", lambda tx: put(tx, intent(expected=1, desired=5)))

    def end(tx: Tx) -> None:
        finish(tx, tx.outbox.get(row.action_seq))
        tx.intents.move(tx.intents.get(row.seq), S.EXECUTED)

    store.transact("end", end)
    assert store.transact("put", lambda tx: put(tx, intent(expected=1, desired=5))).intent.revision == 2


@pytest.mark.req("PRO-16", "AUT-12")
def test_an_override_is_a_revision_of_the_same_sequence_that_nobody_can_move(store):
    over = intent(operation=IntentOperation.OVERRIDE)
    row = store.transact("put", lambda tx: tx.intents.put(over, state=S.SUPERSEDED, decision_seq=None))
    assert (row.decision_seq, row.state) == (None, S.SUPERSEDED)
    with pytest.raises(StaleRevision):
        store.transact("put", put)
    for state in (S.EXECUTED, S.REJECTED, S.RECOVERY_PENDING):
        with pytest.raises(Refused, match="cannot be put as"):
            store.transact("put", lambda tx, state=state: put(tx, intent(expected=1), state))


def test_what_it_led_to_is_found_from_both_ends(store):
    def begin(tx: Tx) -> IntentRow:
        approval = file_approval(tx, request("web", "scale_service"))
        row = put(tx, approval_seq=approval.seq, state=S.PROPOSED)
        return tx.intents.link(row, action_seq=carried_out(tx, request("web", "scale_service")).seq)

    row = store.transact("begin", begin)
    assert store.read(lambda tx: tx.intents.by_approval(row.approval_seq)) == row
    assert store.read(lambda tx: tx.intents.by_action(row.action_seq)) == row
    assert store.read(lambda tx: tx.intents.by_approval(999)) is None


def test_lists_and_states(store):
    rows = [
        store.transact("bring", lambda tx, s=state, n=name: brought_to(tx, s, n))
        for state, name in ((S.PROPOSED, "a"), (S.EXECUTED, "b"), (S.FAILED, "c"))
    ]
    assert [one.intent.service for one in store.read(lambda tx: tx.intents.in_state(S.PROPOSED, S.EXECUTED))] == [
        "a",
        "b",
    ]
    with pytest.raises(Refused, match="not failed"):
        store.read(lambda tx: tx.intents.in_state(S.FAILED))
    assert store.read(lambda tx: tx.intents.list(Page(target="b"))) == [rows[1]]
    assert store.read(lambda tx: tx.intents.list(Page(state="failed"))) == [rows[2]]
    assert len(store.read(lambda tx: tx.intents.list(Page(kind="scale", limit=2)))) == 2
    with pytest.raises(NotFound):
        store.read(lambda tx: tx.intents.get(rows[2].seq + 1000))


def test_what_observers_said_is_kept_without_a_move(store):
    row = store.transact("bring", lambda tx: brought_to(tx, S.EXECUTED))
    seen = Convergence(observed_at=7, deadline=99, evidence={"ready": 4})
    kept = store.transact("note", lambda tx: tx.intents.note_convergence(row, seen))
    assert (kept.state, kept.convergence) == (S.EXECUTED, seen)


def accepted_together(tx: Tx, *wanted: ScaleIntent) -> list[IntentRow]:
    asked = [request(one.service, "scale_service", params={"replicas": one.desired_replicas}) for one in wanted]
    decided = tx.decisions.append_many([decision_draft(one) for one in asked])
    latest = tx.intents.latest_of([one.service for one in wanted])
    return list(
        tx.intents.accept_many(
            [
                NextRevision(intent=one, decision_seq=of.seq, latest=latest.get(one.service))
                for one, of in zip(wanted, decided, strict=True)
            ]
        )
    )


@pytest.mark.req("AUT-3", "RUN-8")
def test_revisions_accepted_together_are_what_they_would_be_alone_and_are_all_entered(store):
    def run(tx: Tx) -> list[IntentRow]:
        return [put(tx, intent("a")), *accepted_together(tx, intent("b"), intent("c")), put(tx, intent("d"))]

    rows = store.transact("put", run)
    assert [store.read(lambda tx, one=one: tx.intents.get(one.seq)) for one in rows] == rows
    assert [one.seq for one in rows] == sorted({one.seq for one in rows})
    entered = store.read(lambda tx: tx.ledger.tail(0, 0, 100))
    assert sorted(one["ref"] for one in entered if one["kind"] == "decisions") == [one.decision_seq for one in rows]
    events = [one["row"] for one in entered if one["kind"] == "ledger_events"]
    assert [(one["topic"], one["ref"]) for one in events] == [("intent", one.seq) for one in rows]
    for one in entered:
        assert one["digest"] == content_digest(one["kind"], one["row"])


@pytest.mark.req("AUT-4")
@pytest.mark.parametrize("second", [("b", 1), ("a", 0)])
def test_of_revisions_accepted_together_none_is_written_if_one_is_stale(store, second):
    service, expected = second
    with pytest.raises(StaleRevision, match=f"^{service}: "):
        store.transact("put", lambda tx: accepted_together(tx, intent("a"), intent(service, expected, 7)))
    assert store.read(lambda tx: (tx.intents.latest("a"), tx.decisions.list(Page()))) == (None, [])


def test_what_is_written_together_is_numbered_above_an_epochs_floor(sqlite):
    store = sqlite.open()
    store._connection.execute("INSERT INTO number_floors (name, floor) VALUES ('decisions', 500), ('intents', 700)")
    rows = store.transact("put", lambda tx: [*accepted_together(tx, intent("a"), intent("b")), put(tx, intent("c"))])
    assert [(one.decision_seq, one.seq) for one in rows] == [(501, 701), (502, 702), (503, 703)]
