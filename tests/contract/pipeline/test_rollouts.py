"""Deploys and rollbacks through the whole protocol: what asks for them, what settles them, what is written down."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleetwarden.controllers.gate import Answer
from fleetwarden.domain.actions import Kind, OutboxRecord, Source, Tier, Verdict
from fleetwarden.domain.budgets import BlastRadius, RateLimit
from fleetwarden.domain.convergence import Need, converge
from fleetwarden.domain.fleet import ProcessSpec, Service, VersionSpec
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.policy_rules import Rule
from fleetwarden.ports.stores import Page
from fleetwarden.ports.versions import RanVersion
from fleetwarden.testing import a_fleet, a_policy, a_request, a_service, an_instance, an_observation
from fleetwarden.testing.substrate import Answer as Heard
from fleetwarden.testing.substrate import Delivery
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def rolling_here(sqlite: Database) -> Bench:
    """The same on SQLite, whose time is ours to move."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 2, version="1.0")
    declare(made, "1.1")
    return made


@pytest.fixture
def rolling(bench: Bench) -> Bench:
    """Two replicas of `web` run version 1.0, and 1.1 is declared."""
    bench.substrate.boot("web", 2, version="1.0")
    declare(bench, "1.1")
    return bench


def declare(bench: Bench, version: str) -> Service:
    service = a_service("web", replicas=2, version=version)
    bench.files.declare(fleet=a_fleet(service))
    return service


def history(bench: Bench) -> list[RanVersion]:
    return list(bench.store.read(lambda tx: tx.versions.of_service("web", 10)))


def ask(bench: Bench, kind: Kind, version: str, **fields: Any) -> OutboxRecord:
    """A person's rollout, carried out."""
    service = bench.files.current().fleet.services["web"]
    at = bench.store.read(lambda tx: tx.now())
    request = a_request(
        service,
        kind=kind,
        params={"version": version},
        source=Source.OPERATOR,
        requested_by="ada",
        key=f"{kind}-{version}-{at}",
        observed_at=at,
        **fields,
    )
    [one] = bench.gate.admit([request], fence=None)
    assert one.answer is Answer.PREPARED, one.reason
    assert one.record is not None
    bench.act()
    seq = one.record.seq
    return bench.store.read(lambda tx: tx.outbox.get(seq))


@pytest.mark.req("REC-3", "ACT-1", "REC-5")
def test_another_declared_version_is_deployed_once_watched_and_written_down(rolling: Bench) -> None:
    rolling.settle_down()
    assert rolling.substrate.versions("web") == {0: "1.1", 1: "1.1"}
    [decision], [record] = rolling.decisions(), rolling.records()
    assert (decision.request.kind, decision.request.params) == (Kind.DEPLOY, {"version": "1.1"})
    assert decision.request.reason == "version 1.0 runs, 1.1 is declared"
    assert record.state is OutboxState.SUCCEEDED
    [watch] = rolling.store.read(lambda tx: [one for one in tx.work.list(_page()) if one.kind == "deploy_watch"])
    assert watch.payload["kind"] == Kind.DEPLOY
    [ran] = history(rolling)
    assert (ran.version, ran.before, ran.kind, ran.complete, ran.action_seq) == (
        "1.1",
        "1.0",
        Kind.DEPLOY,
        True,
        record.seq,
    )


@pytest.mark.req("REC-3")
def test_a_deploy_waits_for_a_person_while_repairs_go_on_in_the_version_that_runs(rolling: Bench) -> None:
    rolling.policy(
        a_policy(
            Tier.AUTO,
            *_rules(Kind.DEPLOY, Tier.APPROVAL_REQUIRED),
        )
    )
    rolling.settle_down()
    [approval] = rolling.approvals()
    assert approval.request.kind == Kind.DEPLOY
    rolling.substrate.crash("web", 0)
    rolling.settle_down()
    assert rolling.substrate.instances("web") == {0: True, 1: True}
    assert rolling.substrate.versions("web") == {0: "1.0", 1: "1.0"}
    rolling.desk.grant(approval.seq, by="ada", reason="go")
    rolling.settle_down()
    assert rolling.substrate.versions("web") == {0: "1.1", 1: "1.1"}


@pytest.mark.req("REC-3")
def test_what_is_down_and_may_not_be_restarted_any_more_gets_the_declared_version(rolling: Bench) -> None:
    """The version may be what ails it: without this, declaring the cure would do nothing."""
    rolling.policy(a_policy(Tier.AUTO, *_rules(Kind.RESTART, Tier.FORBIDDEN)))
    for index in (0, 1):
        rolling.substrate.crash("web", index)
    rolling.settle_down()
    assert rolling.substrate.versions("web") == {0: "1.1", 1: "1.1"}
    assert rolling.substrate.instances("web") == {0: True, 1: True}


@pytest.mark.req("PRO-5", "REC-3")
@pytest.mark.parametrize(
    ("instances", "state", "complete"), [(None, OutboxState.SUCCEEDED, True), (1, OutboxState.FAILED, False)]
)
def test_an_unheard_deploy_is_settled_by_the_versions_that_are_seen(
    rolling_here: Bench, instances: int | None, state: OutboxState, complete: bool
) -> None:
    rolling = rolling_here
    answers = [Delivery(answer=Heard.LOST, instances=instances)]
    rolling.substrate._deliver = lambda _: answers.pop() if answers else Delivery()
    rolling.look()
    rolling.act()
    [record] = rolling.records()
    assert record.state is OutboxState.RECOVERY_PENDING
    rolling.clock.advance(60)  # its horizon passes
    rolling.act()
    settled = rolling.store.read(lambda tx: tx.outbox.get(record.seq))
    assert (settled.state, settled.settled_by) == (state, "evidence")
    assert "of 2 replicas run version 1.1" in settled.note
    [ran] = history(rolling)
    assert (ran.version, ran.complete) == ("1.1", complete)
    assert rolling.calls() == 1


@pytest.mark.req("PRO-5", "REC-3")
def test_an_unheard_deploy_that_never_arrived_is_settled_as_not_done(rolling_here: Bench) -> None:
    rolling = rolling_here
    answers = [Delivery(answer=Heard.LOST, lands=False)]
    rolling.substrate._deliver = lambda _: answers.pop() if answers else Delivery()
    rolling.look()
    rolling.act()
    [record] = rolling.records()
    rolling.clock.advance(60)  # its horizon passes
    rolling.act()
    settled = rolling.store.read(lambda tx: tx.outbox.get(record.seq))
    assert settled.state is OutboxState.FAILED
    assert settled.outcome is not None
    assert settled.outcome.code == "not_done"
    assert history(rolling) == []


@pytest.mark.req("ACT-1")
def test_what_a_person_rolled_back_is_not_deployed_again_until_another_version_is_declared(rolling: Bench) -> None:
    rolling.settle_down()
    assert ask(rolling, Kind.ROLLBACK, "1.0").state is OutboxState.SUCCEEDED
    assert rolling.substrate.versions("web") == {0: "1.0", 1: "1.0"}
    calls = rolling.calls()
    rolling.settle_down()
    assert (rolling.calls(), rolling.substrate.versions("web")) == (calls, {0: "1.0", 1: "1.0"})
    standing = rolling.reconciler.standings()["web"]
    assert standing.code == "version_rolled_back"
    assert standing.reason.startswith("version 1.1 was rolled back to 1.0 (X-")
    declare(rolling, "1.2")
    rolling.settle_down()
    assert rolling.substrate.versions("web") == {0: "1.2", 1: "1.2"}
    assert [(one.kind, one.version, one.before) for one in history(rolling)] == [
        (Kind.DEPLOY, "1.2", "1.0"),
        (Kind.ROLLBACK, "1.0", "1.1"),
        (Kind.DEPLOY, "1.1", "1.0"),
    ]


@pytest.mark.req("ACT-1")
def test_a_person_who_deploys_it_again_ends_that(rolling: Bench) -> None:
    rolling.settle_down()
    ask(rolling, Kind.ROLLBACK, "1.0")
    assert ask(rolling, Kind.DEPLOY, "1.1").state is OutboxState.SUCCEEDED
    rolling.settle_down()
    assert rolling.reconciler.standings()["web"].code == "as_declared"
    assert rolling.substrate.versions("web") == {0: "1.1", 1: "1.1"}


@pytest.mark.req("POL-16")
@pytest.mark.parametrize(
    ("kind", "to", "declared", "verdict"),
    [
        (Kind.DEPLOY, "2.0", "1.0", Verdict.QUEUE_APPROVAL),
        (Kind.ROLLBACK, "2.0", "1.0", Verdict.QUEUE_APPROVAL),
        (Kind.ROLLBACK, "1.0", "2.0", Verdict.QUEUE_APPROVAL),
        (Kind.ROLLBACK, "1.0", "1.1", Verdict.ALLOW),
        (Kind.DEPLOY, "1.1", "1.0", Verdict.ALLOW),
    ],
)
def test_the_registry_says_what_is_irreversible_whatever_the_request_says(
    bench: Bench, kind: Kind, to: str, declared: str, verdict: Verdict
) -> None:
    versions = {"1.0": VersionSpec(), "1.1": VersionSpec(), "2.0": VersionSpec(irreversible=True)}
    spec = ProcessSpec(command=("/srv/web",), host="h1", versions=versions)
    service = msgspec.structs.replace(declare(bench, declared), process=spec)
    bench.files.declare(fleet=a_fleet(service))
    request = a_request(service, kind=kind, params={"version": to}, source=Source.OPERATOR, requested_by="ada")
    [one] = bench.gate.admit([request], fence=None)
    assert one.decision is not None
    assert one.decision.verdict is verdict
    if verdict is Verdict.QUEUE_APPROVAL:
        assert "cannot be undone (version 2.0" in one.reason


@pytest.mark.req("POL-16")
def test_a_controllers_own_deploy_of_an_irreversible_version_says_so_in_its_params(bench: Bench) -> None:
    versions = {"1.0": VersionSpec(), "2.0": VersionSpec(irreversible=True)}
    spec = ProcessSpec(command=("/srv/web",), versions=versions)
    service = msgspec.structs.replace(a_service(version="2.0"), process=spec)
    seen = an_observation(service, at=1, instances=[an_instance(version="1.0")])
    need = converge(service, seen)
    assert isinstance(need, Need)
    assert (need.kind, dict(need.params)) == (Kind.DEPLOY, {"version": "2.0", "irreversible": True})
    held = msgspec.structs.replace(service, rolled_back="it was rolled back")
    assert not isinstance(converge(held, seen), Need)


def _rules(kind: Kind, tier: Tier) -> list[Any]:
    rate, blast = RateLimit(max=1000, window_s=3600), BlastRadius(max_targets=99, window_s=3600)
    return [Rule(kind=kind, target="*", tier=tier, where="policy.yml:1", rate_limit=rate, blast_radius=blast)]


def _page() -> Any:
    return Page(limit=500)
