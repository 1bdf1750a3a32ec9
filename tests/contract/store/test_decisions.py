"""The ledger of decisions, and the budgets that are counted from it."""

from __future__ import annotations

import pytest

from fleetwarden.domain.actions import Verdict
from fleetwarden.domain.errors import Conflict, Misconfigured, NotFound, Refused
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Page
from tests.contract.store.records import (
    carried_out,
    decide,
    decision_draft,
    file_approval,
    finish,
    grant,
    prepare,
    prepare_granted,
    request,
    start,
)


@pytest.mark.req("POL-6")
def test_a_decision_is_read_back_as_it_was_written(store):
    draft = decision_draft(
        request(params={"replicas": 2}, identity={"host": "h1"}, dry_run=True),
        Verdict.QUEUE_APPROVAL,
        numbers={"used": 2, "limit": 3},
        waives=("tier", "window"),
    )
    written = store.transact("write", lambda tx: tx.decisions.append(draft))
    assert store.read(lambda tx: tx.decisions.get(written.seq)) == written
    assert written.request == draft.request
    assert written.request_digest == draft.request.digest()


def test_decisions_are_dated_by_the_transaction_that_wrote_them(store):
    def run(tx):
        return decide(tx), decide(tx), tx.now()

    first, second, now = store.transact("write", run)
    assert first.at == second.at == now


def test_a_decision_that_does_not_exist_is_not_found(store):
    with pytest.raises(NotFound, match="D-99"):
        store.read(lambda tx: tx.decisions.get(99))


def test_the_first_decision_on_a_key_is_the_one_that_counts(store):
    asked = request()
    first, _ = store.transact("write", lambda tx: (decide(tx, asked, Verdict.DENY), decide(tx, asked)))
    assert store.read(lambda tx: tx.decisions.by_key(asked.key)) == first
    assert store.read(lambda tx: tx.decisions.by_key("no such key")) is None


def test_the_latest_decision_is_the_newest_of_its_kind_target_and_source(store):
    def run(tx):
        decide(tx, request("web", "restart_service"))
        by_person = decide(tx, request("web", "restart_service", source="operator"))
        scaled = decide(tx, request("web", "scale_service"))
        other = decide(tx, request("db", "restart_service"))
        return by_person, scaled, other

    by_person, scaled, other = store.transact("write", run)
    with_latest = store.read(
        lambda tx: (
            tx.decisions.latest("restart_service", "web"),
            tx.decisions.latest("restart_service", "web", "operator"),
            tx.decisions.latest("restart_service", "web", "playbook"),
            tx.decisions.latest_by_target(["web", "db", "unheard-of", "web"]),
        )
    )
    assert with_latest == (by_person, by_person, None, {"web": scaled, "db": other})


def test_nothing_is_the_latest_of_no_targets(store):
    store.transact("write", decide)
    assert store.read(lambda tx: tx.decisions.latest_by_target([])) == {}


def test_a_link_is_set_once(store):
    def run(tx):
        approval = file_approval(tx)
        tx.decisions.link(approval.decision_seq, approval_seq=approval.seq)
        tx.decisions.link(approval.decision_seq, approval_seq=approval.seq)
        return approval

    approval = store.transact("link", run)
    assert store.read(lambda tx: tx.decisions.get(approval.decision_seq)).approval_seq == approval.seq
    with pytest.raises(Conflict, match="that link already"):
        store.transact("again", lambda tx: tx.decisions.link(approval.decision_seq, approval_seq=approval.seq + 1))
    with pytest.raises(NotFound):
        store.transact("nowhere", lambda tx: tx.decisions.link(99, action_seq=1))
    with pytest.raises(Refused, match="nothing"):
        store.transact("to nothing", lambda tx: tx.decisions.link(approval.decision_seq))


def uses(store, target="web", since=0, kind="restart_service", **options):
    options = {"dry_run": False, "limit": 100, **options}
    return [
        (use.decision_seq, use.at) for use in store.read(lambda tx: tx.decisions.uses(kind, target, since, **options))
    ]


@pytest.mark.req("POL-6")
def test_allowed_decisions_use_the_budget_and_queued_or_denied_ones_do_not(store):
    def run(tx):
        allowed = decide(tx), decide(tx, verdict=Verdict.ALLOW_NOTIFY)
        decide(tx, verdict=Verdict.DENY)
        decide(tx, verdict=Verdict.QUEUE_APPROVAL)
        decide(tx, request(target="other"))
        decide(tx, request(kind="scale_service"))
        return allowed

    first, second = store.transact("decide", run)
    assert uses(store) == [(second.seq, second.at), (first.seq, first.at)]
    assert uses(store, limit=1) == [(second.seq, second.at)]


@pytest.mark.req("POL-6")
def test_a_use_exactly_at_the_start_of_the_window_no_longer_counts(store):
    decision = store.transact("decide", decide)
    assert uses(store, since=decision.at - 1) == [(decision.seq, decision.at)]
    assert uses(store, since=decision.at) == []


@pytest.mark.req("AUT-8")
def test_dry_runs_have_a_budget_of_their_own(store):
    real, dry = store.transact("decide", lambda tx: (decide(tx), decide(tx, request(dry_run=True))))
    assert [seq for seq, _ in uses(store)] == [real.seq]
    assert [seq for seq, _ in uses(store, dry_run=True)] == [dry.seq]


@pytest.mark.req("POL-6")
def test_an_abandoned_record_gives_its_slot_back_and_a_new_one_takes_it_again(store):
    def run(tx):
        decision = decide(tx)
        record = prepare(tx, decision=decision)
        return decision, record

    decision, record = store.transact("prepare", run)
    assert [seq for seq, _ in uses(store)] == [decision.seq]
    store.transact("abandon", lambda tx: tx.outbox.abandon(record.seq, "expired"))
    assert uses(store) == []
    store.transact("prepare again", lambda tx: prepare(tx, decision=decision))
    assert [seq for seq, _ in uses(store)] == [decision.seq]


@pytest.mark.req("POL-6", "AUT-10")
def test_a_failed_action_keeps_its_slot(store):
    record = store.transact("act", lambda tx: carried_out(tx, to=OutboxState.FAILED))
    assert [seq for seq, _ in uses(store)] == [record.decision_seq]


@pytest.mark.req("POL-6")
def test_a_grant_counts_when_it_is_executed_and_at_that_time(store, database):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    assert uses(store) == []
    database.lapse()
    running = store.transact("start", lambda tx: start(tx, record))
    assert uses(store) == [(record.decision_seq, running.started_at)]
    store.transact("finish", lambda tx: finish(tx, running))
    assert uses(store) == [(record.decision_seq, running.started_at)]
    assert uses(store, since=running.started_at) == []


@pytest.mark.req("POL-6")
def test_targets_are_the_newest_use_of_each_target(store, database):
    def run(tx):
        decide(tx, request("web"))
        decide(tx, request("db"), Verdict.DENY)
        decide(tx, request("queue", dry_run=True))
        return decide(tx, request("mail"))

    mail = store.transact("early", run)
    database.lapse()
    web = store.transact("late", lambda tx: decide(tx, request("web")))
    found = store.read(lambda tx: tx.decisions.targets("restart_service", 0, dry_run=False))
    assert [(use.target, use.decision_seq, use.at) for use in found] == [
        ("web", web.seq, web.at),
        ("mail", mail.seq, mail.at),
    ]
    later = store.read(lambda tx: tx.decisions.targets("restart_service", mail.at, dry_run=False))
    assert [use.target for use in later] == ["web"]


@pytest.mark.req("POL-6")
@pytest.mark.parametrize("limit", [1, 2, 9])
@pytest.mark.parametrize("dry_run", [False, True])
def test_uses_of_many_targets_are_what_each_of_them_has(store, database, limit, dry_run):
    def run(tx):
        for name in ("web", "mail", "web", "db", "web"):
            decide(tx, request(name))
        decide(tx, request("db"), Verdict.DENY)
        decide(tx, request("queue", dry_run=True))
        carried_out(tx)

    store.transact("decide", run)
    database.lapse()
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    record = store.transact("prepare", lambda tx: prepare_granted(tx, approval))
    store.transact("start", lambda tx: start(tx, record))
    names = ["db", "mail", "nobody", "queue", "web"]

    def read(tx):
        among = {"dry_run": dry_run, "limit": limit}
        each = {name: tx.decisions.uses("restart_service", name, 0, **among) for name in names}
        return each, tx.decisions.uses_of_each("restart_service", names, 0, **among)

    each, together = store.read(read)
    assert {name: list(found) for name, found in together.items()} == {
        name: list(found) for name, found in each.items() if found
    }
    assert together


@pytest.mark.req("POL-6")
def test_budgets_survive_a_restart(store, database):
    decision = store.transact("decide", decide)
    store.close()
    assert uses(database.open()) == [(decision.seq, decision.at)]


def test_a_list_is_newest_first_and_pages_by_seq(store):
    seqs = store.transact("write", lambda tx: [decide(tx).seq for _ in range(5)])
    first = store.read(lambda tx: tx.decisions.list(Page(limit=2)))
    rest = store.read(lambda tx: tx.decisions.list(Page(limit=10, before=first[-1].seq)))
    assert [one.seq for one in [*first, *rest]] == seqs[::-1]


def test_a_list_is_filtered_by_what_it_is_asked_for(store, database):
    def run(tx):
        decide(tx, request("web"), Verdict.DENY)
        decide(tx, request("db"))
        return decide(tx, request("web", "scale_service"))

    scaled = store.transact("write", run)
    database.lapse()
    late = store.transact("late", lambda tx: decide(tx, request("web")))

    def listed(**filters):
        return [one.seq for one in store.read(lambda tx: tx.decisions.list(Page(**filters)))]

    assert listed(target="web", kind="scale_service") == [scaled.seq]
    assert listed(state="allow", target="web") == [late.seq, scaled.seq]
    assert listed(since=late.at) == [late.seq]
    assert listed(kind="unheard-of") == []


@pytest.mark.parametrize("limit", [0, 501, -1])
def test_a_page_of_an_absurd_size_is_refused(store, limit):
    with pytest.raises(Misconfigured, match="1 to 500"):
        store.read(lambda tx: tx.decisions.list(Page(limit=limit)))
