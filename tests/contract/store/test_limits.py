"""Nothing is cut: what does not fit is refused by name, and its transaction with it."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest

from fleetwarden.domain.errors import Refused, StoreUnavailable
from fleetwarden.ports.stores import Page
from fleetwarden.store.columns import JSON_BYTES_MAX, PROSE_BYTES_MAX, TEXT_BYTES_MAX
from tests.contract.store.records import decide, file_approval, prepare, request, start, vote


def journal(tx, **changed):
    return tx.journal.write(**{"topic": "notice", "actor": "test", "summary": "x", **changed})


@pytest.mark.req("POL-6")
@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda tx: decide(tx, reason="r" * (TEXT_BYTES_MAX + 1)), f"decision.reason .* {TEXT_BYTES_MAX}"),
        (
            lambda tx: decide(tx, request(params={"blob": "b" * JSON_BYTES_MAX})),
            f"decision.request .* {JSON_BYTES_MAX}",
        ),
        (lambda tx: decide(tx, numbers={"all": list(range(JSON_BYTES_MAX))}), "decision.numbers"),
        (lambda tx: journal(tx, summary="é" * (PROSE_BYTES_MAX // 2 + 1)), f"journal.summary .* {PROSE_BYTES_MAX}"),
        (lambda tx: journal(tx, actor="a\0b"), "journal.actor contains a NUL"),
        (lambda tx: journal(tx, actor="\ud800"), "journal.actor is not Unicode"),
        (lambda tx: journal(tx, detail={"it": object()}), "journal.detail cannot be written as JSON"),
        (lambda tx: prepare(tx, host="h" * (TEXT_BYTES_MAX + 1)), "action.host"),
        (lambda tx: tx.outbox.abandon(prepare(tx).seq, "n" * (PROSE_BYTES_MAX + 1)), "action.note"),
        (lambda tx: start(tx, prepare(tx), horizon_at=2**63), "unstorable|too large|out of range|refuses"),
    ],
)
def test_a_value_over_its_limit_is_refused_by_name_and_the_transaction_with_it(store, act, named):
    def run(tx):
        journal(tx)
        act(tx)

    with pytest.raises(Refused, match=named):
        store.transact("too much", run)
    assert store.read(lambda tx: tx.journal.list(Page())) == []


def test_what_just_fits_comes_back_whole(store):
    reason, blob = "r" * TEXT_BYTES_MAX, "b" * (JSON_BYTES_MAX - 500)
    written = store.transact("fits", lambda tx: decide(tx, request(params={"blob": blob}), reason=reason))
    assert store.read(lambda tx: tx.decisions.get(written.seq)) == written
    nul = store.transact("json keeps it", lambda tx: journal(tx, detail={"nul": "\0", "text": "é✓"}))
    assert store.read(lambda tx: tx.journal.list(Page(limit=1))) == [nul]


@pytest.mark.req("POL-6")
def test_the_evidence_of_many_services_is_kept_whole(store):
    """Thirty services once were enough to have the evidence of a decision cut in its middle."""
    facts = {f"service-{number}": {"status": "down", "since": number, "pids": [number] * 8} for number in range(500)}
    written = store.transact("decide", lambda tx: decide(tx, numbers=facts))
    assert store.read(lambda tx: tx.decisions.get(written.seq)).numbers == facts


@pytest.mark.req("POL-7")
def test_an_approval_whose_votes_no_longer_fit_is_refused_and_unchanged(store):
    approval = store.transact("file", file_approval)

    def run(tx):
        for number in range(1_000):
            tx.approvals.vote(approval.seq, vote(f"{number:04}" * 1_000))

    with pytest.raises(Refused, match=r"approval\.votes"):
        store.transact("vote", run)
    assert store.read(lambda tx: tx.approvals.get(approval.seq)) == approval


@pytest.mark.req("POL-4")
def test_a_row_that_cannot_be_read_is_an_error_and_never_left_out(store, database):
    store.transact("put", lambda tx: tx.overrides.put("o1", {"tier": "auto"}, active=True, by="ann"))
    decision = store.transact("decide", decide)
    damage(database, "UPDATE policy_overrides SET rule = '{\"tier\": '", "UPDATE decisions SET verdict = 'perhaps'")
    with pytest.raises(StoreUnavailable, match="policy override o1"):
        store.read(lambda tx: tx.overrides.all())
    with pytest.raises(StoreUnavailable, match=f"decision {decision.seq}"):
        store.read(lambda tx: tx.decisions.list(Page()))


def damage(database, *statements):
    """Write behind the store's back."""
    connection: Any
    if database.dialect == "sqlite":
        connection = sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        connection = psycopg.connect(database.url, autocommit=True)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()
