"""Evidence before action: what was seen is kept with the fence, clean and bounded, and never stops an action."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import Caller, Role
from fleetwarden.app.listing import Lists
from fleetwarden.controllers import capturing
from fleetwarden.controllers.executor import CADENCE as EXECUTOR
from fleetwarden.domain.fleet import DesiredState, Mode
from fleetwarden.domain.identifiers import SECOND, canonical_json, digest
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.testing import a_fleet, a_service
from fleetwarden.testing.substrate import Answer, Delivery
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


def captured(bench: Bench, record: int = 0):
    seq = bench.records()[record].seq
    return bench.store.read(lambda tx: tx.captures.of_action(seq))


@pytest.mark.req("ACT-6")
def test_the_last_lines_are_kept_beside_the_ledger_and_their_digest_in_it(bench: Bench) -> None:
    bench.substrate.said["web", 1] = ["listening", "login with password=hunter2 failed", "out of memory"]
    bench.substrate.said["web", 0] = ["all is well"]
    bench.substrate.crash("web", 1)
    bench.settle_down()
    [execution] = bench.executions()
    kept = captured(bench)
    assert kept is not None
    assert execution.evidence["captured"] == kept.digest == digest(kept.body)
    [one] = kept.body["instances"]
    assert (one["id"], one["status"]) == ("1", "gone")
    assert one["lines"] == ["listening", "login with password=*** failed", "out of memory"]
    assert "out of memory" not in str(execution.evidence)
    assert "hunter2" not in str(kept.body)
    caller = Caller(person="ada", token="t", roles=(Role.VIEWER,))
    shown = Lists(bench.store).show(caller, "executions", execution.id)
    assert shown["captured"]["instances"][0]["lines"][-1] == "out of memory"


@pytest.mark.req("ACT-6")
def test_a_stop_captures_every_replica_and_a_scale_or_a_dry_run_none(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, desired=DesiredState.STOPPED, mode=Mode.DRY_RUN)))
    bench.settle_down()
    assert captured(bench) is None
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=3)))
    bench.settle_down()
    assert captured(bench) is None
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=3, desired=DesiredState.STOPPED)))
    bench.settle_down()
    kept = captured(bench)
    assert kept is not None
    assert [one["id"] for one in kept.body["instances"]] == ["0", "1", "2"]


@pytest.mark.req("ACT-6")
@pytest.mark.parametrize("broken", ["told", "crash"])
def test_a_capture_that_fails_is_noted_and_stops_nothing(bench: Bench, broken: str) -> None:
    if broken == "told":
        bench.substrate.mute = "the disk is gone, token=abc123"
    else:
        bench.substrate.capture = None  # type: ignore[method-assign,assignment]
    bench.substrate.crash("web", 1)
    bench.settle_down()
    assert bench.records()[0].state is OutboxState.SUCCEEDED
    kept = captured(bench)
    assert kept is not None
    assert kept.body["problem"].startswith("not captured: ")
    assert "abc123" not in kept.body["problem"]


@pytest.mark.req("ACT-6")
def test_it_is_there_also_when_the_outcome_is_unknown(bench: Bench) -> None:
    bench.substrate.said["web", 1] = ["last words"]
    bench.substrate._deliver = lambda _: Delivery(answer=Answer.LOST)
    bench.substrate.crash("web", 1)
    bench.look()
    bench.act()
    assert bench.records()[0].state is OutboxState.RECOVERY_PENDING
    kept = captured(bench)
    assert kept is not None
    bench.settle_down()
    assert [one.evidence["captured"] for one in bench.executions()] == [kept.digest, kept.digest]


@pytest.mark.req("ACT-6")
def test_it_is_bounded_whatever_is_said(bench: Bench) -> None:
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=40, desired=DesiredState.STOPPED)))
    bench.substrate.boot("web", 40)
    for index in range(40):
        bench.substrate.said["web", index] = [f"\x1b\0{number} " + "é" * 900 for number in range(200)]
    bench.settle_down()
    assert bench.records()[0].state is OutboxState.SUCCEEDED
    kept = captured(bench)
    assert kept is not None
    assert len(canonical_json(kept.body)) <= 2 * capturing.TOTAL_BYTES_MAX
    first = kept.body["instances"][0]
    assert first["cut"] is True
    assert first["lines"][-1].startswith("��199 ")
    assert kept.body["problem"] == "8 more replicas are not captured"


@pytest.mark.req("ACT-6")
def test_a_record_that_is_not_begun_keeps_nothing(bench: Bench) -> None:
    bench.substrate.crash("web", 1)
    bench.look()
    bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, mode=Mode.OBSERVE)))
    bench.act()
    assert bench.records()[0].state is OutboxState.ABANDONED
    assert captured(bench) is None


@pytest.mark.req("ACT-6")
def test_it_is_deleted_after_thirty_days_and_an_idle_pass_writes_nothing(sqlite: Database) -> None:
    bench = Bench(sqlite.open(), sqlite.clock)
    bench.substrate.boot("web", 2)
    bench.substrate.crash("web", 1)
    bench.look()
    bench.executor.run_prepared(bench.fence(EXECUTOR))
    written: list[str] = []
    real = bench.store.transact

    def transact(name, fn):
        written.append(name)
        return real(name, fn)

    bench.store.transact = transact  # type: ignore[method-assign]
    assert capturing.prune(bench.store) == 0
    assert written == []
    bench.clock.advance(capturing.KEPT_FOR / SECOND + 1)
    assert capturing.prune(bench.store) == 1
    assert captured(bench) is None
    assert "captured" in bench.executions()[0].evidence
