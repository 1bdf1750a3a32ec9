"""Who has to say yes: rules combined, owners filled in, and a need that never gets smaller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.actions import Needed
from fleetwarden.domain.approvers import Approvers, combined, needed_for, read_teams, vote_problem
from fleetwarden.domain.errors import Misconfigured

TEAMS = st.sets(st.sampled_from(["dba", "sec", "web"])).map(lambda names: tuple(sorted(names)))
RULES = st.none() | st.builds(Approvers, teams=st.none() | TEAMS, count=st.integers(1, 5))


@pytest.mark.req("POL-18")
@given(deciding=RULES, finals=st.lists(RULES, max_size=3), owner=st.sampled_from(["", "web"]), voter=TEAMS)
def test_a_final_rule_never_lets_somebody_in_whom_it_keeps_out(
    deciding: Approvers | None, finals: list[Approvers | None], owner: str, voter: tuple[str, ...]
) -> None:
    together = needed_for(combined(deciding, finals), owner)
    for one in finals:
        if one is not None and one.teams is not None:
            alone = needed_for(one, owner)
            assert vote_problem(together, voter) is not None or vote_problem(alone, voter) is None
            assert together.count >= alone.count


@pytest.mark.req("POL-18")
@pytest.mark.parametrize(
    ("approvers", "owner", "needed"),
    [
        (None, "", Needed()),
        (None, "dba", Needed(teams=("dba",))),
        (Approvers(count=2), "dba", Needed(count=2, teams=("dba",))),
        (Approvers(count=2), "", Needed(count=2)),
        (Approvers(teams=("sec",)), "dba", Needed(teams=("sec",))),
        (Approvers(teams=()), "dba", Needed(nobody=True)),
    ],
)
def test_no_list_is_the_owners_and_an_empty_one_is_nobody(
    approvers: Approvers | None, owner: str, needed: Needed
) -> None:
    assert needed_for(approvers, owner) == needed


@pytest.mark.req("POL-18")
def test_a_member_of_any_named_team_may_answer_and_nobody_else() -> None:
    needed = Needed(count=2, teams=("dba", "sec"))
    assert vote_problem(needed, ("web", "sec")) is None
    assert vote_problem(needed, ()) == "it needs an approver of team dba or sec"
    assert vote_problem(Needed(), ()) is None


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize("names", [("two words",), ("",), ("a" * 64,), tuple(f"t{n}" for n in range(21))])
def test_teams_that_are_no_names_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(Misconfigured):
        read_teams(names)
    assert read_teams(("dba", "dba", "sec")) == ("dba", "sec")
