"""The auditor itself: it has nothing to say of a sound history, and each of its rules catches the fault it is for."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.crash import audit_remedies as remedies
from tests.acceptance.crash.audit import RULES, Facts, audit, gather
from tests.acceptance.crash.databases import SqliteDatabase
from tests.acceptance.crash.scenarios import SCENARIOS, stage
from tests.acceptance.crash.world import Server, World

Plant = Callable[["Plot"], None]


class Plot:
    """The facts of a sound history, open to be falsified."""

    def __init__(self, facts: Facts) -> None:
        self.tables = copy.deepcopy({name: list(rows) for name, rows in facts.tables.items()})
        self.starts, self.living, self.lost = list(facts.starts), list(facts.living), list(facts.lost)
        self.told, self.uses = list(facts.told), dict(facts.uses)
        self._facts = facts

    @property
    def repair(self) -> dict[str, Any]:
        """The restart that was granted, done, and settled after a crash."""
        return self.record("restart_service")

    def record(self, kind: str) -> dict[str, Any]:
        return next(row for row in self.tables["outbox"] if row["kind"] == kind)

    def row(self, table: str, **wanted: Any) -> dict[str, Any]:
        return next(row for row in self.tables[table] if all(row[name] == value for name, value in wanted.items()))

    def facts(self) -> Facts:
        return dataclasses.replace(
            self._facts,
            tables=self.tables,
            starts=self.starts,
            living=self.living,
            lost=self.lost,
            told=self.told,
            uses=self.uses,
        )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, plane_server: Server) -> Iterator[Facts]:
    """A replica was lost, its restart granted; the plane died after the effect; then came a freeze and its end."""
    folder: Path = tmp_path_factory.mktemp("auditor") / "world"
    world = World(folder, SqliteDatabase(folder / "data" / "fleet.db"), plane_server)
    try:
        scenario = next(one for one in SCENARIOS if one.name == "approval")
        steps = [*stage(scenario, world), ["freeze"], ["settle", 0], ["thaw"]]
        world.run_on(steps, ["call.after#1", None])
        yield gather(world, scenario.declared)
    finally:
        world.close()


def left_running(plot: Plot) -> None:
    plot.repair["state"] = "running"


def never_decided(plot: Plot) -> None:
    plot.row("decisions", seq=plot.repair["decision_seq"])["verdict"] = "deny"


def another_request(plot: Plot) -> None:
    plot.repair["request"]["params"] = {"replica": 0}


def started_by_nobody(plot: Plot) -> None:
    plot.starts.append(("shop", 0, "0123456789abcdef"))


def started_before_the_fence(plot: Plot) -> None:
    plot.repair["started_at"] = None


def started_twice(plot: Plot) -> None:
    plot.starts.append(plot.starts[-1])


def started_too_many(plot: Plot) -> None:
    plot.starts.append(("shop", 0, plot.repair["key"]))


def effect_lost(plot: Plot) -> None:
    plot.starts.pop()


def failure_that_was_none(plot: Plot) -> None:
    plot.repair["state"] = "failed"


def replica_missing(plot: Plot) -> None:
    plot.living.pop()


def replica_too_many(plot: Plot) -> None:
    plot.living.append(("shop", 2, plot.repair["key"]))


def ended_by_nobody(plot: Plot) -> None:
    plot.lost.clear()
    plot.repair["request"]["params"]["replica"] = 0


def ledger_row_missing(plot: Plot) -> None:
    plot.tables["executions"].remove(plot.row("executions", action_seq=plot.repair["seq"], state="executed"))


def unknown_outcome_hidden(plot: Plot) -> None:
    plot.tables["executions"].remove(plot.row("executions", state="recovery_pending"))


def settled_by_an_old_look(plot: Plot) -> None:
    row = plot.row("executions", action_seq=plot.repair["seq"], state="executed")
    row["evidence"]["observed_at"] = plot.repair["started_at"] - 1


def settled_too_early(plot: Plot) -> None:
    row = plot.row("executions", action_seq=plot.repair["seq"], state="executed")
    row["state"], row["at"] = "failed", plot.repair["horizon_at"]


def approval_lost(plot: Plot) -> None:
    plot.tables["approvals"].pop()


def approval_forgotten(plot: Plot) -> None:
    plot.tables["approvals"][-1]["status"] = "granted"


def granted_by_nobody(plot: Plot) -> None:
    plot.tables["approvals"][-1]["votes"] = []


def carried_out_twice(plot: Plot) -> None:
    plot.record("start_service")["approval_seq"] = plot.repair["approval_seq"]


def closed_later(plot: Plot) -> None:
    plot.tables["approvals"][-1]["ended_at"] += 1


def work_stuck(plot: Plot) -> None:
    plot.row("work_items", kind="approved_action")["state"] = "leased"


def work_doubled(plot: Plot) -> None:
    plot.tables["work_items"].append(plot.row("work_items", kind="approved_action"))


def watch_missing(plot: Plot) -> None:
    plot.tables["work_items"].remove(plot.row("work_items", kind="deploy_watch"))


def rollout_not_written_down(plot: Plot) -> None:
    record = plot.repair
    record["kind"], record["request"]["params"] = "deploy_service", {"version": "1.1"}


def slot_leaked(plot: Plot) -> None:
    plot.uses["restart_service shop"] += 1


def slot_held_by_nothing(plot: Plot) -> None:
    plot.tables["decisions"].append({**plot.tables["decisions"][-1], "seq": 99, "verdict": "allow"})


def budget_passed(plot: Plot) -> None:
    again = [{**plot.repair, "seq": 90 + number} for number in range(3)]
    plot.tables["outbox"] += again
    plot.uses["restart_service shop"] = 4


def notice_lost(plot: Plot) -> None:
    plot.told = [one for one in plot.told if one != plot.row("journal", topic="notice")["summary"]]


def two_at_a_time(plot: Plot) -> None:
    start = next(row for row in plot.tables["outbox"] if row["target"] == "shop")
    start["finished_at"] = plot.repair["prepared_at"] + 1


def old_token(plot: Plot) -> None:
    plot.repair["fence"]["token"] = 0


def fenced_in_the_freeze(plot: Plot) -> None:
    plot.tables["freezes"][0]["at"] = plot.repair["started_at"] - 1


def clock_stepped_back(plot: Plot) -> None:
    plot.tables["journal"][-1]["at"] = plot.tables["journal"][0]["at"] - 1


FAULTS: dict[Plant, str] = {
    left_running: "nothing_is_left_open",
    never_decided: "every_call_rests_on_a_decision",
    another_request: "every_call_rests_on_a_decision",
    started_by_nobody: "a_service_started_only_what_was_fenced",
    started_before_the_fence: "a_service_started_only_what_was_fenced",
    started_twice: "nothing_was_done_twice",
    started_too_many: "nothing_was_done_twice",
    effect_lost: "nothing_was_lost_or_made_up",
    failure_that_was_none: "nothing_was_lost_or_made_up",
    replica_missing: "the_fleet_is_as_declared",
    replica_too_many: "the_fleet_is_as_declared",
    ended_by_nobody: "nobody_died_without_an_action",
    ledger_row_missing: "every_end_is_in_the_ledger",
    unknown_outcome_hidden: "every_end_is_in_the_ledger",
    settled_by_an_old_look: "what_was_settled_rests_on_evidence",
    settled_too_early: "what_was_settled_rests_on_evidence",
    approval_lost: "no_approval_is_lost",
    approval_forgotten: "no_approval_is_lost",
    granted_by_nobody: "no_approval_is_lost",
    carried_out_twice: "an_approval_is_carried_out_once",
    closed_later: "an_approval_is_carried_out_once",
    work_stuck: "granted_work_is_done_once",
    work_doubled: "granted_work_is_done_once",
    watch_missing: "each_restart_is_watched_once",
    rollout_not_written_down: "each_rollout_is_in_the_history_of_versions",
    slot_leaked: "no_budget_slot_leaks",
    slot_held_by_nothing: "no_budget_slot_leaks",
    budget_passed: "no_budget_slot_leaks",
    notice_lost: "every_notice_reaches_people",
    two_at_a_time: "one_action_of_a_target_at_a_time",
    old_token: "tokens_only_grow",
    fenced_in_the_freeze: "nothing_was_fenced_in_a_freeze",
    clock_stepped_back: "time_never_goes_back",
}


def test_a_sound_history_passes(history: Facts) -> None:
    assert audit(Plot(history).facts()) == []


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught_by_its_rule(plant: Plant, history: Facts) -> None:
    plot = Plot(history)
    plant(plot)
    assert FAULTS[plant] in {found.partition(":")[0] for found in audit(plot.facts())}


def test_every_rule_has_a_fault_that_it_catches() -> None:
    assert set(FAULTS.values()) == set(RULES) - {rule.__name__ for rule in remedies.RULES}  # which have their own
