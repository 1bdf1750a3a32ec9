"""Any sequence of voices, judged by a model that shares no code with the product: who counts, when it ends."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.lifecycles import ApprovalState
from tests.contract.store.records import file_approval, request, vote

TEAMS = ("dba", "sec", "web")
numbers = itertools.count()
voices = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cyd", "dan"]),
        st.sets(st.sampled_from(TEAMS)).map(sorted).map(tuple),
        st.sampled_from(["approved"] * 4 + ["denied"]),
    ),
    max_size=10,
)


class Model:
    """One request as a child would keep it: a list of names, a number, and whether somebody said no."""

    def __init__(self, count, teams, nobody):
        self.count, self.teams, self.nobody = count, set(teams), nobody
        self.spoke, self.yes, self.state = set(), 0, "pending"

    def hears(self, person, teams, said):
        """Whether the voice is taken."""
        if self.state != "pending" or person in self.spoke:
            return False
        if said == "approved" and (self.nobody or (self.teams and not self.teams & set(teams))):
            return False
        self.spoke.add(person)
        self.yes += said == "approved"
        if said == "denied":
            self.state = "rejected"
        elif self.yes == self.count:
            self.state = "granted"
        return True


def say(store, seq, person, teams, said):
    """What a desk does with one voice, in one transaction; whether it was taken."""

    def run(tx):
        voted = tx.approvals.vote(seq, vote(person, said, teams=teams))
        if said == "denied":
            tx.approvals.move(seq, came_from=ApprovalState.PENDING, to=ApprovalState.REJECTED)
        elif sum(one.decision == "approved" for one in voted.votes) >= voted.needed.count:
            tx.approvals.move(seq, came_from=ApprovalState.PENDING, to=ApprovalState.GRANTED)

    try:
        store.transact("voice", run)
    except FleetError:
        return False
    return True


@pytest.mark.req("POL-18", "POL-7")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(count=st.integers(1, 3), teams=st.sets(st.sampled_from(TEAMS), max_size=2), nobody=st.booleans(), said=voices)
def test_whatever_is_said_the_store_decides_as_the_model(store, count, teams, nobody, said):
    nobody = nobody and not teams
    model = Model(count, teams, nobody)
    asked = request(f"web-{next(numbers)}")
    approval = store.transact(
        "file", lambda tx: file_approval(tx, asked, needed=count, teams=tuple(sorted(teams)), nobody=nobody)
    )
    for person, member_of, answer in said:
        assert say(store, approval.seq, person, member_of, answer) == model.hears(person, member_of, answer)
    now = store.read(lambda tx: tx.approvals.get(approval.seq))
    assert (now.status.value, {one.by for one in now.votes}) == (model.state, model.spoke)


@pytest.mark.req("POL-18", "POL-7")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(count=st.integers(1, 3), teams=st.sets(st.sampled_from(TEAMS), max_size=2), said=voices)
def test_nobody_can_grant_past_the_quorum_by_moving_the_request_itself(store, count, teams, said):
    """Between any two voices somebody tries to grant without counting; the store counts by itself."""
    model = Model(count, teams, nobody=False)
    asked = request(f"db-{next(numbers)}")
    approval = store.transact("file", lambda tx: file_approval(tx, asked, needed=count, teams=tuple(sorted(teams))))

    def grab(tx):
        tx.approvals.move(approval.seq, came_from=ApprovalState.PENDING, to=ApprovalState.GRANTED)

    for person, member_of, answer in said:
        if model.state == "pending":
            with pytest.raises(FleetError):
                store.transact("grab", grab)
        say(store, approval.seq, person, member_of, answer)
        model.hears(person, member_of, answer)
    assert store.read(lambda tx: tx.approvals.get(approval.seq)).status.value == model.state
