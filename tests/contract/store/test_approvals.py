"""Approvals: what the store itself holds, whoever calls it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwarden.domain.actions import Outcome
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound, Refused
from fleetwarden.domain.lifecycles import APPROVAL, ApprovalState, OutboxState
from fleetwarden.ports.stores import Page
from tests.contract.store.records import (
    HOUR,
    file_approval,
    finish,
    grant,
    prepare_granted,
    request,
    start,
    vote,
)

PENDING, GRANTED = ApprovalState.PENDING, ApprovalState.GRANTED
numbers = itertools.count()


def moved(approval, to, came_from=PENDING, **options):
    return lambda tx: tx.approvals.move(approval.seq, came_from=came_from, to=to, **options)


@pytest.mark.req("POL-7")
def test_an_approval_is_read_back_as_it_was_filed(store):
    asked = request(params={"replicas": 3})
    approval = store.transact("file", lambda tx: file_approval(tx, asked, needed=2, waives=("tier", "window")))
    assert store.read(lambda tx: tx.approvals.get(approval.seq)) == approval
    assert (approval.status, approval.request, approval.digest) == (PENDING, asked, asked.digest())
    assert (approval.needed.count, approval.waives, approval.votes) == (2, ("tier", "window"), ())
    assert (approval.expires_at, approval.ended_at) == (approval.created_at + HOUR, None)


@pytest.mark.req("POL-7")
def test_one_approval_is_pending_per_kind_and_target(store):
    first = store.transact("file", file_approval)

    def run(tx):
        with pytest.raises(Conflict, match="pending already"):
            file_approval(tx)
        return file_approval(tx, request("db")), file_approval(tx, request("web", "scale_service"))

    other, scale = store.transact("more", run)
    assert store.read(lambda tx: tx.approvals.in_state(PENDING)) == [first, other, scale]


@pytest.mark.req("POL-7")
def test_after_a_grant_another_may_be_pending(store):
    approval = store.transact("file", file_approval)
    granted = store.transact("grant", lambda tx: grant(tx, approval))
    second = store.transact("again", file_approval)
    assert store.read(lambda tx: tx.approvals.open_of("web")) == [granted, second]
    assert store.read(lambda tx: tx.approvals.open_of("web", "scale_service")) == []
    assert store.read(lambda tx: tx.approvals.open_of("web", "restart_service")) == [granted, second]


@pytest.mark.req("POL-7")
def test_a_vote_is_kept_with_who_when_and_why(store, database):
    approval = store.transact("file", file_approval)
    database.lapse()
    now, voted = store.transact("vote", lambda tx: (tx.now(), tx.approvals.vote(approval.seq, vote("ann"))))
    assert [(one.by, one.decision, one.reason, one.at) for one in voted.votes] == [("ann", "approved", "fine", now)]
    assert store.read(lambda tx: tx.approvals.get(approval.seq)) == voted


@pytest.mark.req("POL-7")
def test_a_person_votes_once(store):
    approval = store.transact("file", lambda tx: file_approval(tx, needed=2))
    store.transact("vote", lambda tx: tx.approvals.vote(approval.seq, vote("ann")))
    with pytest.raises(Conflict, match="ann has voted"):
        store.transact("again", lambda tx: tx.approvals.vote(approval.seq, vote("ann", "denied")))
    both = store.transact("other", lambda tx: tx.approvals.vote(approval.seq, vote("bob")))
    assert [one.by for one in both.votes] == ["ann", "bob"]


@pytest.mark.req("POL-7")
def test_a_decided_approval_takes_no_more_votes_and_no_second_grant(store):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    with pytest.raises(Conflict, match="granted"):
        store.transact("vote", lambda tx: tx.approvals.vote(approval.seq, vote("bob")))
    with pytest.raises(IllegalMove, match="granted"):
        store.transact("grant", moved(approval, GRANTED))


@pytest.mark.req("POL-7")
def test_nothing_is_granted_without_the_votes_that_it_needs(store):
    approval = store.transact("file", lambda tx: file_approval(tx, needed=2))
    with pytest.raises(Conflict, match="0 of the 2"):
        store.transact("no vote", moved(approval, GRANTED))
    store.transact("vote", lambda tx: tx.approvals.vote(approval.seq, vote("ann")))
    store.transact("no", lambda tx: tx.approvals.vote(approval.seq, vote("eve", "denied")))
    with pytest.raises(Conflict, match="1 of the 2"):
        store.transact("one vote", moved(approval, GRANTED))
    assert store.transact("second", lambda tx: grant(tx, approval, "bob")).status is GRANTED


@pytest.mark.req("POL-7")
def test_an_expired_approval_takes_no_vote_and_is_not_granted(store, database):
    approval = store.transact("file", lambda tx: file_approval(tx, expires_at=tx.now() + 1_000))
    database.lapse()
    with pytest.raises(Conflict, match="expired"):
        store.transact("late", lambda tx: tx.approvals.vote(approval.seq, vote("bob")))
    with pytest.raises(Conflict, match="expired"):
        store.transact("late", moved(approval, GRANTED))
    expired = store.transact("expire", moved(approval, ApprovalState.EXPIRED, note="nobody answered"))
    assert (expired.status, expired.note) == (ApprovalState.EXPIRED, "nobody answered")
    assert expired.ended_at is not None


@given(
    came_from=st.sampled_from(ApprovalState),
    to=st.sampled_from(ApprovalState),
    really=st.sampled_from([PENDING, GRANTED]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_approval_moves_along_its_lifecycle_and_from_where_it_is(store, came_from, to, really):
    def run(tx):
        approval = file_approval(tx, request(f"web-{next(numbers)}"))
        approval = grant(tx, approval) if really is GRANTED else tx.approvals.vote(approval.seq, vote())
        if came_from is really and to in APPROVAL.moves[really]:
            assert moved(approval, to, came_from)(tx).status is to
        else:
            with pytest.raises(IllegalMove):
                moved(approval, to, came_from)(tx)
            assert tx.approvals.get(approval.seq) == approval

    store.transact("move", run)


@pytest.mark.req("PRO-12", "AUT-20")
@pytest.mark.parametrize("state", [OutboxState.RUNNING, OutboxState.RECOVERY_PENDING])
@pytest.mark.parametrize(
    "end", [ApprovalState.EXPIRED, ApprovalState.REJECTED, ApprovalState.SUPERSEDED, ApprovalState.VOIDED]
)
def test_an_approval_whose_action_is_under_way_ends_only_with_it(store, state, end):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    running = store.transact("start", lambda tx: start(tx, prepare_granted(tx, approval)))
    unknown = Outcome(ok=False, unknown_outcome=True)
    if state is OutboxState.RECOVERY_PENDING:
        running = store.transact("lost", lambda tx: finish(tx, running, state, outcome=unknown))

    def run(tx):
        with pytest.raises(Conflict, match=running.id):
            moved(approval, end, GRANTED)(tx)
        return tx.approvals.get(approval.seq)

    assert store.transact("end", run).status is GRANTED

    def complete(tx):
        finish(tx, running)
        return moved(approval, ApprovalState.CLOSED, GRANTED, note="done")(tx)

    assert store.transact("complete", complete).status is ApprovalState.CLOSED


@pytest.mark.req("AUT-15")
def test_if_the_completion_is_lost_the_approval_stays_visible(store):
    approval = store.transact("file", file_approval)
    store.transact("grant", lambda tx: grant(tx, approval))
    running = store.transact("start", lambda tx: start(tx, prepare_granted(tx, approval)))

    def complete(tx):
        finish(tx, running)
        moved(approval, ApprovalState.CLOSED, GRANTED)(tx)
        raise RuntimeError("the commit is lost")

    with pytest.raises(RuntimeError):
        store.transact("complete", complete)
    assert [one.seq for one in store.read(lambda tx: tx.approvals.in_state(GRANTED))] == [approval.seq]
    assert store.read(lambda tx: tx.outbox.get(running.seq)) == running


@pytest.mark.req("PRO-3")
def test_a_superseded_approval_names_its_successor(store):
    old = store.transact("file", file_approval)

    def run(tx):
        moved(old, ApprovalState.SUPERSEDED)(tx)
        return file_approval(tx, request(params={"replicas": 9}))

    new = store.transact("supersede", run)
    other = store.transact("file", lambda tx: file_approval(tx, request("db")))
    named = store.transact("name", moved(other, ApprovalState.SUPERSEDED, superseded_by=new.seq))
    assert named.superseded_by == new.seq


def test_an_approval_that_does_not_exist_is_not_found(store):
    with pytest.raises(NotFound, match="A-99"):
        store.read(lambda tx: tx.approvals.get(99))
    with pytest.raises(NotFound, match="A-99"):
        store.transact("vote", lambda tx: tx.approvals.vote(99, vote()))


def test_approvals_are_counted_and_listed_by_status(store):
    def run(tx):
        ended = moved(file_approval(tx), ApprovalState.REJECTED, note="no")(tx)
        return ended, file_approval(tx), file_approval(tx, request("db"))

    ended, web, db = store.transact("file", run)
    assert store.read(lambda tx: tx.approvals.count(PENDING)) == 2
    assert store.read(lambda tx: tx.approvals.count(ApprovalState.VOIDED)) == 0

    def listed(**filters):
        return store.read(lambda tx: tx.approvals.list(Page(**filters)))

    assert listed(state="pending") == [db, web]
    assert listed(target="web") == [web, ended]
    assert listed(kind="restart_service", limit=1) == [db]
    with pytest.raises(Refused, match="rejected"):
        store.read(lambda tx: tx.approvals.in_state(ApprovalState.REJECTED))


@pytest.mark.req("POL-18", "POL-7")
def test_a_yes_of_no_needed_team_is_refused_and_a_no_is_taken_from_anybody(store):
    approval = store.transact("file", lambda tx: file_approval(tx, teams=("dba",), needed=1))
    with pytest.raises(Refused, match="needs an approver of team dba"):
        store.transact("other team", lambda tx: tx.approvals.vote(approval.seq, vote("ann", teams=("web",))))
    store.transact("no", lambda tx: tx.approvals.vote(approval.seq, vote("ann", "denied")))
    assert store.transact("yes", lambda tx: grant(tx, approval, "bob", teams=("dba",))).status is GRANTED


@pytest.mark.req("POL-18")
def test_nobody_means_nobody(store):
    approval = store.transact("file", lambda tx: file_approval(tx, nobody=True))
    with pytest.raises(Refused, match="names nobody"):
        store.transact("yes", lambda tx: tx.approvals.vote(approval.seq, vote("ann", teams=("dba",))))
    with pytest.raises(Conflict, match="0 of the 1"):
        store.transact("grant", moved(approval, GRANTED))


@pytest.mark.req("POL-7")
def test_a_warning_is_noted_once_and_only_while_it_waits(store):
    approval = store.transact("file", file_approval)
    warned = store.transact("warn", lambda tx: tx.approvals.warned(approval.seq))
    assert warned.warned_at is not None
    store.transact("grant", lambda tx: grant(tx, approval))
    with pytest.raises(IllegalMove, match="no longer pending"):
        store.transact("again", lambda tx: tx.approvals.warned(approval.seq))


@pytest.mark.req("POL-7")
def test_only_a_superseded_one_is_replaced_and_only_once(store):
    approval = store.transact("file", file_approval)
    with pytest.raises(IllegalMove):
        store.transact("pending", lambda tx: tx.approvals.replaced(approval.seq, 99))
    store.transact("end", moved(approval, ApprovalState.SUPERSEDED))
    assert store.transact("once", lambda tx: tx.approvals.replaced(approval.seq, 99)).superseded_by == 99
    with pytest.raises(IllegalMove):
        store.transact("twice", lambda tx: tx.approvals.replaced(approval.seq, 98))
