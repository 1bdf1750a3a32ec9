"""Scale intents on both databases: one revision for whoever comes first, and only the moves that exist."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.lifecycle import IntentOperation, ScaleIntent, SignalSummaryRef, intent_id
from fleetwarden.domain.errors import Conflict, FleetError, IllegalMove, NotFound, Refused, StaleRevision
from fleetwarden.domain.lifecycles import INTENT, IntentState
from fleetwarden.domain.sealing import content_digest
from fleetwarden.ports.intents import Convergence, IntentDraft, IntentRow
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


def drafts(tx: Tx, *wanted: ScaleIntent, **more: Any) -> list[IntentDraft]:
    decided = tx.decisions.append_many([decision_draft(request(one.service, "scale_service")) for one in wanted])
    return [
        IntentDraft(intent=one, state=S.INTENT_ACCEPTED, decision_seq=decision.seq, **more)
        for one, decision in zip(wanted, decided, strict=True)
    ]


@pytest.mark.req("AUT-3", "AUT-4")
def test_many_are_put_as_one_at_a_time_would_be_and_entered_into_the_ledger(store):
    one = store.transact("put", put)
    many = store.transact("put", lambda tx: tx.intents.put_many(drafts(tx, *[intent(f"s{n}") for n in range(5)])))
    later = store.transact("put", lambda tx: put(tx, intent("z")))
    assert [row.seq for row in (one, *many, later)] == sorted({row.seq for row in (one, *many, later)})
    for row in many:
        assert store.read(lambda tx, seq=row.seq: tx.intents.get(seq)) == row
        assert store.read(lambda tx, seq=row.decision_seq: tx.decisions.get(seq)).request.target == row.intent.service
    store.transact("seal", lambda tx: tx.ledger.seal(1_000))
    items = store.read(lambda tx: tx.ledger.entries(0, 1_000))
    assert {(item["kind"], item["ref"]) for item in items} >= {("decisions", row.decision_seq) for row in many}
    told = [msgspec.json.decode(item["row"]["body"]) for item in items if item["kind"] == "ledger_events"]
    alone = msgspec.to_builtins(one.intent)
    assert told[0] == {"state": "intent_accepted", "intent": alone, "decision_seq": one.decision_seq}
    assert [body["intent"]["service"] for body in told] == ["web", *(f"s{n}" for n in range(5)), "z"]
    assert all(item["digest"] == content_digest(item["kind"], item["row"]) for item in items)
    for kind in store.read(lambda tx: tx.ledger.kinds()):
        assert store.read(lambda tx, kind=kind: tx.ledger.strays(kind, 0, 100)) == ([], None)


@pytest.mark.req("AUT-4")
def test_of_many_one_that_stands_already_is_returned_as_it_stands(store):
    first = store.transact("put", put)
    found = store.transact(
        "put", lambda tx: tx.intents.put_many(drafts(tx, intent("a"), intent(), intent("b"), latest=None))
    )
    assert [row.intent.service for row in found] == ["a", "web", "b"]
    assert found[1] == first
    assert store.read(lambda tx: tx.intents.latest_of(["a", "b"])) == {"a": found[0], "b": found[2]}


@pytest.mark.req("AUT-4")
def test_of_many_a_revision_that_somebody_took_meanwhile_ends_them_all(store):
    """Whatever was read before (here: that there was none), the index decides."""
    store.transact("put", put)
    with pytest.raises(StaleRevision, match="no longer the latest"):
        store.transact(
            "put", lambda tx: tx.intents.put_many(drafts(tx, intent("a"), intent(desired=9), intent("b"), latest=None))
        )
    assert store.read(lambda tx: tx.intents.latest_of(["a", "b"])) == {}
    assert len(store.read(lambda tx: tx.decisions.list(Page()))) == 1


@pytest.mark.req("AUT-4", "AUT-20")
def test_of_lists_that_race_for_the_same_revisions_one_is_kept_whole(store):
    names = [f"s{n}" for n in range(8)]
    ends = race(
        store,
        *[
            lambda tx, n=n: tx.intents.put_many(drafts(tx, *[intent(name, desired=n) for name in names], latest=None))
            for n in range(2, 7)
        ],
    )
    kept = [one for one in ends if not isinstance(one, FleetError)]
    assert len(kept) == 1
    assert {type(one) for one in ends if isinstance(one, FleetError)} == {StaleRevision}
    assert store.read(lambda tx: tx.intents.latest_of(names)) == {row.intent.service: row for row in kept[0]}


def test_no_row_makes_no_statement_and_a_read_transaction_puts_none(store):
    assert store.transact("put", lambda tx: (tx.intents.put_many([]), tx.decisions.append_many([]))) == ([], [])
    with pytest.raises(Refused, match="cannot write"):
        store.read(lambda tx: tx.decisions.append_many([decision_draft()]))


def test_many_are_numbered_above_an_epochs_floor(sqlite):
    store = sqlite.open()
    rows = [("decisions", 500), ("intents", 700), ("ledger_events", 900)]
    store._connection.executemany("INSERT INTO number_floors (name, floor) VALUES (?, ?)", rows)
    found = store.transact("put", lambda tx: tx.intents.put_many(drafts(tx, intent("a"), intent("b"))))
    assert [(row.seq, row.decision_seq) for row in found] == [(701, 501), (702, 502)]
    assert store.transact("put", put).seq == 703
