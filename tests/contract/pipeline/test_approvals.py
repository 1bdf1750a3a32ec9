"""A person in the loop: one question, one exact request, one answer, and everything asked again before it is done."""

from __future__ import annotations

import threading

import msgspec
import pytest

from fleetwarden.controllers.approvals import Voiced
from fleetwarden.domain.actions import Source, Tier, Verdict
from fleetwarden.domain.errors import Conflict, Refused
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.testing import a_fleet, a_policy, a_request, a_service
from tests.contract.pipeline.conftest import Bench

ASK = Tier.APPROVAL_REQUIRED


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """`web#1` is dead and a person is asked."""
    bench.policy(a_policy(ASK))
    bench.substrate.crash("web", 1)
    bench.look()
    return bench


def the(bench: Bench) -> int:
    """The newest approval."""
    return bench.approvals()[0].seq


def grant(bench: Bench, seq: int | None = None, by: str = "ada") -> Voiced:
    return bench.desk.grant(the(bench) if seq is None else seq, by=by, reason="go")[0]


@pytest.mark.req("POL-7", "ASC-17")
def test_however_often_it_looks_one_question_is_asked_and_one_decision_written(asked: Bench) -> None:
    asked.settle_down(6)
    [approval] = asked.approvals()
    assert approval.status is ApprovalState.PENDING
    assert approval.waives == ("tier",)
    assert len(asked.decisions()) == 1
    assert asked.records() == []


@pytest.mark.req("POL-7", "POL-8", "AUT-15")
def test_a_grant_restarts_exactly_once_and_closes_the_approval_with_the_outcome(asked: Bench) -> None:
    assert grant(asked) is Voiced.GRANTED
    asked.settle_down(6)
    [record] = asked.records()
    assert record.state is OutboxState.SUCCEEDED
    assert asked.calls() == 1
    [approval] = asked.approvals()
    assert (approval.status, record.approval_seq) == (ApprovalState.CLOSED, approval.seq)
    assert [vote.by for vote in approval.votes] == ["ada"]


@pytest.mark.req("POL-7", "POL-17")
def test_a_second_grant_is_refused_and_runs_nothing(asked: Bench) -> None:
    grant(asked)
    for by in ("ada", "bob"):
        with pytest.raises(Conflict):
            grant(asked, by=by)
    asked.settle_down()
    with pytest.raises(Conflict, match="closed"):
        grant(asked, by="bob")
    assert asked.calls() == 1


@pytest.mark.req("POL-7")
def test_a_rejected_request_never_runs_and_is_asked_about_anew(asked: Bench) -> None:
    asked.desk.reject(the(asked), by="ada", reason="not now")
    with pytest.raises(Conflict, match="rejected"):
        grant(asked)
    asked.settle_down()
    assert asked.calls() == 0
    assert [one.status for one in asked.approvals()] == [ApprovalState.PENDING, ApprovalState.REJECTED]


@pytest.mark.req("POL-7")
def test_a_grant_that_has_not_begun_can_be_taken_back(asked: Bench) -> None:
    grant(asked)
    asked.look()
    asked.worker.run()
    assert asked.records()[0].state is OutboxState.PREPARED
    asked.desk.reject(the(asked), by="bob", reason="wait")
    asked.act()
    assert asked.records()[0].state is OutboxState.ABANDONED
    assert asked.calls() == 0


@pytest.mark.req("PRO-12")
def test_an_approval_whose_action_runs_can_be_neither_rejected_nor_expired(asked: Bench) -> None:
    seen: list[str] = []

    class During:
        def __getattr__(self, name: str) -> object:
            return getattr(asked.substrate, name)

        def actuate(self, call):
            with pytest.raises(Conflict, match="can no longer be rejected"):
                asked.desk.reject(the(asked), by="bob", reason="stop")
            seen.append(asked.approvals()[0].status.value)
            return asked.substrate.actuate(call)

    asked.build(During())  # type: ignore[arg-type]
    grant(asked)
    asked.settle_down()
    assert seen == ["granted"]
    assert asked.approvals()[0].status is ApprovalState.CLOSED


@pytest.mark.req("POL-7")
def test_an_unanswered_question_expires_and_a_late_grant_is_refused(bench: Bench, database) -> None:
    bench.policy(a_policy(ASK, approval_expires_s=1))
    bench.substrate.crash("web", 1)
    bench.look()
    if database.dialect == "sqlite":
        bench.clock.advance(2)
    else:
        threading.Event().wait(1.1)
    with pytest.raises(Conflict, match="expired"):
        grant(bench)
    assert bench.desk.expire_due() == 1
    assert bench.approvals()[0].status is ApprovalState.EXPIRED
    assert bench.calls() == 0


@pytest.mark.req("AUT-24", "POL-7", "PRO-13")
def test_a_grant_that_policy_forbids_by_now_is_refused_and_says_so(asked: Bench) -> None:
    asked.policy(a_policy(Tier.FORBIDDEN))
    voiced, approval, why = asked.desk.grant(the(asked), by="ada", reason="go")
    assert voiced is Voiced.VOIDED
    assert "forbidden" in why
    assert approval.status is ApprovalState.VOIDED
    asked.settle_down()
    assert asked.calls() == 0


@pytest.mark.req("PRO-13")
def test_policy_that_forbids_after_the_grant_voids_it_before_the_call(asked: Bench) -> None:
    grant(asked)
    asked.look()
    asked.worker.run()
    asked.policy(a_policy(Tier.FORBIDDEN))
    asked.act()
    assert asked.records()[0].state is OutboxState.ABANDONED
    assert asked.approvals()[0].status is ApprovalState.VOIDED
    assert asked.calls() == 0


@pytest.mark.req("POL-7", "POL-8")
def test_a_grant_for_a_service_that_is_healthy_by_now_is_refused_and_says_so(asked: Bench) -> None:
    asked.substrate.revive("web", 1)
    voiced, _, why = asked.desk.grant(the(asked), by="ada", reason="go")
    assert (voiced, why) == (Voiced.VOIDED, "web#1 is up by now")
    asked.settle_down()
    assert asked.calls() == 0


@pytest.mark.req("POL-8")
def test_a_service_that_recovers_between_grant_and_call_is_left_alone(asked: Bench) -> None:
    grant(asked)
    asked.look()
    asked.worker.run()
    asked.substrate.revive("web", 1)
    asked.act()
    assert asked.approvals()[0].status is ApprovalState.VOIDED
    assert asked.calls() == 0


@pytest.mark.req("POL-7")
def test_nobody_approves_what_they_asked_for_themselves(bench: Bench) -> None:
    bench.policy(a_policy(ASK))
    service = bench.files.current().fleet.services["web"]
    at = bench.store.read(lambda tx: tx.now())
    own = a_request(service, key="mine", observed_at=at, source=Source.OPERATOR, requested_by="ada")
    bench.gate.admit([own], fence=None)
    with pytest.raises(Refused, match="cannot approve it"):
        grant(bench, by="ada")
    bench.policy(a_policy(ASK, allow_self_approval=True))
    assert grant(bench, by="ada") is Voiced.GRANTED


@pytest.mark.req("POL-7")
def test_a_persons_different_request_supersedes_the_pending_one_visibly(asked: Bench) -> None:
    service = asked.files.current().fleet.services["web"]
    at = asked.store.read(lambda tx: tx.now())
    other = a_request(service, params={}, key="all", observed_at=at, source=Source.OPERATOR, requested_by="ada")
    asked.gate.admit([other], fence=None)
    new, old = asked.approvals()
    assert (old.status, new.status) == (ApprovalState.SUPERSEDED, ApprovalState.PENDING)
    assert "replaced" in old.note
    with pytest.raises(Conflict, match="superseded"):
        grant(asked, old.seq)


@pytest.mark.req("POL-7")
def test_a_grant_names_one_declaration_and_does_not_carry_over_to_another(bench: Bench) -> None:
    first = a_service("web", process=True, replicas=1)
    bench.substrate.substrate = "process"
    bench.substrate.substrates = frozenset({"process"})
    bench.files.declare(fleet=a_fleet(first), policy=a_policy(ASK))
    bench.substrate.crash("web", 1)
    bench.look()
    assert first.process is not None
    changed = msgspec.structs.replace(first, process=msgspec.structs.replace(first.process, command=("/srv/other",)))
    bench.files.declare(fleet=a_fleet(changed))
    voiced, _, why = bench.desk.grant(the(bench), by="ada", reason="go")
    assert (voiced, why) == (Voiced.VOIDED, "web is declared differently by now")


@pytest.mark.req("AUT-24")
def test_a_freeze_makes_a_grant_wait_and_a_thaw_lets_it_go_on(asked: Bench, database) -> None:
    frozen = asked.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch"))
    assert grant(asked) is Voiced.GRANTED
    asked.settle_down()
    assert asked.calls() == 0
    assert asked.approvals()[0].status is ApprovalState.GRANTED
    asked.store.transact("thaw", lambda tx: tx.freezes.lift(frozen.seq, "ada"))
    if database.dialect == "sqlite":
        asked.clock.advance(10)
        asked.settle_down()
        assert asked.calls() == 1


@pytest.mark.req("AUT-24", "POL-3")
def test_what_asks_for_a_person_only_now_is_asked_about_again(bench: Bench) -> None:
    bench.policy(_asking(blast=1))
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2), a_service("api")))
    bench.substrate.boot("api", 1)
    bench.substrate.crash("web", 1)
    bench.substrate.crash("api", 0)
    bench.look()
    by_target = {one.request.target: one.seq for one in bench.approvals()}
    grant(bench, by_target["web"])
    bench.settle_down()
    grant(bench, by_target["api"])
    bench.settle_down()
    newest = bench.approvals()[0]
    assert (newest.request.target, newest.status) == ("api", ApprovalState.PENDING)
    assert set(newest.waives) == {"tier", "blast"}
    assert bench.calls() == 1
    grant(bench, newest.seq)
    bench.settle_down()
    assert bench.calls() == 2


@pytest.mark.req("POL-3", "POL-21")
def test_a_grant_counts_in_the_budget_when_it_is_carried_out(bench: Bench) -> None:
    bench.policy(_asking(rate=1))
    bench.substrate.crash("web", 1)
    bench.look()
    grant(bench)
    bench.settle_down()
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.calls() == 1
    assert (bench.decisions()[0].verdict, bench.decisions()[0].code) == (Verdict.DENY, "rate")


@pytest.mark.req("POL-7")
def test_a_policy_that_allows_it_by_now_withdraws_the_question(asked: Bench) -> None:
    asked.policy(a_policy(Tier.AUTO))
    asked.settle_down()
    assert asked.approvals()[0].status is ApprovalState.SUPERSEDED
    assert asked.calls() == 1


@pytest.mark.req("POL-8")
def test_a_policy_that_asks_by_now_stops_what_was_allowed_before(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    bench.policy(a_policy(ASK))
    bench.act()
    assert bench.calls() == 0
    bench.settle_down()
    assert bench.approvals()[0].status is ApprovalState.PENDING


def _asking(*, rate: int = 1000, blast: int = 1000):
    return a_policy(ASK, rate=(rate, 3600), blast=(blast, 3600))
