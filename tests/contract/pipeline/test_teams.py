"""Who has to say yes, on both databases: owning teams, quorums, one person one vote, ends that are told."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fleetwarden.controllers.approvals import Voiced
from fleetwarden.controllers.expiry import Expiry
from fleetwarden.domain.actions import Needed, Tier
from fleetwarden.domain.approvers import Approvers
from fleetwarden.domain.errors import Conflict, FleetError, Refused
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.policy import Rule
from fleetwarden.testing import a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture

ASK = Tier.APPROVAL_REQUIRED


def a_rule(teams: tuple[str, ...] | None, count: int = 1, *, target: str = "web", final: bool = False) -> Rule:
    return Rule(
        kind="*", target=target, tier=ASK, approvers=Approvers(teams=teams, count=count), final=final, where="rule"
    )


def ask(bench: Bench, *rules: Rule, owner: str = "platform") -> int:
    """`web`, owned by a team, is asked about; returns the approval."""
    fleet = a_fleet(a_service("web", replicas=2, owner=owner))
    bench.files.declare(fleet=fleet, policy=a_policy(ASK, *rules))
    bench.substrate.crash("web", 1)
    bench.look()
    return bench.approvals()[0].seq


def grant(bench: Bench, seq: int, by: str, *teams: str) -> Voiced:
    return bench.desk.grant(seq, by=by, reason="go", teams=teams)[0]


@pytest.mark.req("POL-18")
def test_without_a_list_the_owning_team_answers_and_nobody_else(bench: Bench) -> None:
    seq = ask(bench)
    assert bench.approvals()[0].needed == Needed(count=1, teams=("platform",))
    with pytest.raises(Refused, match="needs an approver of team platform"):
        grant(bench, seq, "eve", "dba")
    with pytest.raises(Refused, match="needs an approver of team platform"):
        grant(bench, seq, "eve")
    assert bench.approvals()[0].votes == ()
    assert grant(bench, seq, "ada", "web", "platform") is Voiced.GRANTED
    assert bench.approvals()[0].votes[0].teams == ("web", "platform")


@pytest.mark.req("POL-18")
def test_a_service_without_an_owner_and_a_list_is_answered_by_any_approver(bench: Bench) -> None:
    seq = ask(bench, owner="")
    assert bench.approvals()[0].needed == Needed()
    assert grant(bench, seq, "ada") is Voiced.GRANTED


@pytest.mark.req("POL-18")
def test_an_empty_list_is_nobody_and_the_request_can_only_be_rejected(bench: Bench) -> None:
    seq = ask(bench, a_rule(()))
    with pytest.raises(Refused, match="names nobody"):
        grant(bench, seq, "ada", "platform")
    assert bench.desk.reject(seq, by="ada", reason="never").status is ApprovalState.REJECTED


@pytest.mark.req("POL-18", "POL-7")
def test_two_people_of_a_team_grant_together_and_one_person_counts_once(bench: Bench) -> None:
    seq = ask(bench, a_rule(("dba",), 2))
    assert grant(bench, seq, "ada", "dba") is Voiced.NOTED
    with pytest.raises(Conflict, match=r"ada has answered A-\d+ already: 1 of 2 needed have granted it") as again:
        grant(bench, seq, "ada", "dba", "platform")  # another token of the same person
    assert again.value.code == "already_voted"
    bench.settle_down()
    assert bench.calls() == 0
    assert grant(bench, seq, "bob", "dba") is Voiced.GRANTED
    bench.settle_down()
    assert bench.calls() == 1
    with pytest.raises(Conflict, match="closed"):
        grant(bench, seq, "cyd", "dba")


@pytest.mark.req("POL-18")
def test_one_rejection_ends_it_whatever_was_granted_before(bench: Bench) -> None:
    seq = ask(bench, a_rule(("dba",), 2))
    grant(bench, seq, "ada", "dba")
    assert bench.desk.reject(seq, by="eve", reason="not today").status is ApprovalState.REJECTED
    with pytest.raises(Conflict, match="rejected"):
        grant(bench, seq, "bob", "dba")
    assert bench.calls() == 0


@pytest.mark.req("POL-18", "POL-5")
def test_a_final_rule_is_not_made_smaller_by_a_more_specific_one(bench: Bench) -> None:
    ask(bench, a_rule(("web", "dba"), 1), a_rule(("dba", "sec"), 2, target="*", final=True))
    assert bench.approvals()[0].needed == Needed(count=2, teams=("dba",))


@pytest.mark.req("POL-18", "POL-5")
def test_rules_that_agree_on_nobody_leave_nobody(bench: Bench) -> None:
    ask(bench, a_rule(("web",)), a_rule(("dba",), target="*", final=True))
    assert bench.approvals()[0].needed == Needed(count=1, teams=(), nobody=True)


@pytest.mark.req("POL-18")
def test_the_decision_says_who_has_to_approve(bench: Bench) -> None:
    ask(bench, a_rule(("dba",), 2))
    [decision] = bench.decisions()
    assert decision.numbers["approvers"] == {"teams": ["dba"], "count": 2}
    assert "2 approvers of team dba" in decision.rule


@pytest.mark.req("POL-18", "POL-7")
@pytest.mark.parametrize("round_", range(5))
def test_of_votes_at_the_same_moment_exactly_the_needed_ones_grant(bench: Bench, round_: int) -> None:
    """Five people at once, two of whom use two tokens each, where three are needed: one grant, no double vote."""
    seq = ask(bench, a_rule(("dba",), 3))
    voices: list[object] = []
    start = threading.Barrier(7)

    def voice(by: str) -> Callable[[], None]:
        def run() -> None:
            start.wait(10)
            try:
                voices.append(grant(bench, seq, by, "dba"))
            except FleetError as error:
                voices.append(error.code)

        return run

    threads = [threading.Thread(target=voice(by)) for by in ("ada", "ada", "bob", "bob", "cyd", "dan", "eve")]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(voices) == 7
    assert voices.count(Voiced.GRANTED) == 1
    assert voices.count(Voiced.NOTED) == 2
    [approval] = bench.approvals()
    people = [vote.by for vote in approval.votes]
    assert (len(people), len(set(people)), approval.status) == (3, 3, ApprovalState.GRANTED)


@pytest.mark.req("POL-7")
def test_what_is_replaced_says_by_what(bench: Bench) -> None:
    bench.policy(a_policy(ASK))
    for count in (3, 4):
        wish = a_request(
            a_service("web", replicas=2),
            kind="scale_service",
            params={"replicas": count},
            source="operator",
            requested_by="ada",
        )
        bench.gate.admit([wish], fence=None)
    newest, older = bench.approvals()
    assert (older.status, older.superseded_by) == (ApprovalState.SUPERSEDED, newest.seq)
    assert (newest.status, newest.superseded_by) == (ApprovalState.PENDING, None)


def expiry(bench: Bench) -> Expiry:
    return Expiry(bench.store, bench.files, bench.desk, bench.wakes)


@pytest.mark.req("POL-7")
def test_people_are_told_once_before_an_approval_expires_and_it_ends_as_expired(sqlite: Database) -> None:
    """Only where the clock is ours to move; the statements run on both databases in the store's own suite."""
    bench = Bench(sqlite.open(), sqlite.clock)
    bench.substrate.boot("web", 2)
    ask(bench, a_rule(("dba",), 2))
    ends = expiry(bench)
    bench.clock.advance(86_400 - 3_601)
    assert ends.run() == 0
    bench.clock.advance(2)
    assert (ends.run(), ends.run()) == (1, 0)
    assert [one for one in bench.notices() if "0 of 2 needed have granted it" in one]
    bench.clock.advance(3_600)
    assert (ends.run(), ends.run()) == (1, 0)
    assert bench.approvals()[0].status is ApprovalState.EXPIRED
    with pytest.raises(Conflict, match="expired"):
        grant(bench, bench.approvals()[0].seq, "ada", "dba")


@pytest.mark.req("POL-12")
def test_a_freeze_that_ends_by_itself_says_so_once(bench: Bench) -> None:
    bench.store.transact(
        "freeze",
        lambda tx: tx.freezes.add(owner="ada", reason="", until=tx.now() + 1_000, scope="group", value="web"),
    )
    bench.clock.advance(60)
    threading.Event().wait(0.01)  # on a server real time passes
    ends = expiry(bench)
    assert (ends.run(), ends.run()) == (1, 0)
    assert [one for one in bench.notices() if one.startswith("the freeze of group web by ada ended by itself")]


@pytest.mark.req("POL-12")
@pytest.mark.parametrize(
    ("scope", "value", "held"),
    [
        ("all", "", True),
        ("group", "front", True),
        ("group", "back", False),
        ("kind", "restart_service", True),
        ("kind", "scale_service", False),
        ("service", "web", True),
        ("service", "web-2", False),
    ],
)
def test_a_freeze_holds_what_it_covers_and_nothing_else(bench: Bench, scope: str, value: str, held: bool) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, group="front")))
    bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch", scope=scope, value=value))
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.calls() == (0 if held else 1)
