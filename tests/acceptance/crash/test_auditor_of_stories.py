"""The rules about stories: they have nothing to say of sound ones, and each catches the fault it is for."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.crash.audit import Facts, audit, gather
from tests.acceptance.crash.audit_remedies import RULES
from tests.acceptance.crash.databases import SqliteDatabase
from tests.acceptance.crash.scenarios import stage
from tests.acceptance.crash.stories import STORIES, Story
from tests.acceptance.crash.world import Server, World

Plant = Callable[["Tale"], None]


class Tale:
    """The facts of one sound story, open to be falsified."""

    def __init__(self, facts: Facts) -> None:
        self.facts = dataclasses.replace(
            facts,
            tables=copy.deepcopy({name: list(rows) for name, rows in facts.tables.items()}),
            kept=copy.deepcopy(list(facts.kept)),
            deeds=list(facts.deeds),
            told=list(facts.told),
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows = self.facts.tables[table]
        assert isinstance(rows, list)
        return rows

    def again(self, table: str, **change: Any) -> None:
        """Its newest row once more."""
        self.rows(table).append({**self.rows(table)[-1], **change})

    @property
    def deeds(self) -> list[str]:
        assert isinstance(self.facts.deeds, list)
        return self.facts.deeds

    @property
    def log(self) -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = self.rows("events")[0]["remediation_log"]
        return log


@pytest.fixture(scope="module")
def tales(tmp_path_factory: pytest.TempPathFactory, plane_server: Server) -> Iterator[Mapping[str, Facts]]:
    """Each story, with a death at its last place."""
    found, worlds = {}, []
    try:
        for story in STORIES:
            folder: Path = tmp_path_factory.mktemp("tales") / "world"
            world = World(folder, SqliteDatabase(folder / "data" / "fleet.db"), plane_server, dict(story.settings))
            worlds.append(world)
            found[story.name] = told(world, story)
        yield found
    finally:
        for world in worlds:
            world.close()


def told(world: World, story: Story) -> Facts:
    place, _, passing = story.deaths[-1].partition("#")
    world.run_on(stage(story, world), [f"{place}.after#{passing or 1}", None])
    return gather(world, story.declared, **story.facts)


def second_row(tale: Tale) -> None:
    tale.again("events")


def step_taken_twice(tale: Tale) -> None:
    tale.log.insert(2, tale.log[1])


def never_ended(tale: Tale) -> None:
    tale.log.pop()


def second_record(tale: Tale) -> None:
    tale.again("outbox", seq=90, key="playbook:E-1:1:decide", state="failed")


def second_restart(tale: Tale) -> None:
    tale.again("outbox", seq=90, key="by nobody")


def window_begun_anew(tale: Tale) -> None:
    for row in tale.rows("deploy_watches"):
        row["deadline"] += 1


def window_moved_by_the_death(tale: Tale) -> None:
    before = tale.facts.kept[0]["deploy_watches"]
    before[-1]["deadline"] -= 1


def called_well_too_early(tale: Tale) -> None:
    last = tale.rows("deploy_watches")[-1]
    last["ended_at"] = last["deadline"] - 1


def watch_left(tale: Tale) -> None:
    tale.rows("deploy_watches")[-1]["status"] = "running"


def rollback_decided_twice(tale: Tale) -> None:
    asked = next(row for row in tale.rows("decisions") if row["kind"] == "rollback_service")
    tale.rows("decisions").append({**asked, "seq": 90})


def rollback_missing(tale: Tale) -> None:
    done = next(row for row in tale.rows("outbox") if row["kind"] == "rollback_service")
    done["state"] = "failed"


def quarantine_missing(tale: Tale) -> None:
    tale.rows("quarantines").clear()


def done_twice_outside(tale: Tale) -> None:
    tale.deeds.append(tale.deeds[-1])


def claimed_twice(tale: Tale) -> None:
    tale.again("outbox", seq=90)


def result_lost(tale: Tale) -> None:
    tale.rows("outbox")[-1]["state"] = "recovery_pending"


def revision_doubled(tale: Tale) -> None:
    tale.again("intents", revision=2, intent_id="another")


def revision_lost(tale: Tale) -> None:
    tale.rows("intents").clear()


def never_verified(tale: Tale) -> None:
    tale.rows("intents")[-1]["state"] = "observed"


def scaled_besides(tale: Tale) -> None:
    tale.again("outbox", seq=90)


def notice_doubled(tale: Tale) -> None:
    tale.rows("journal").append(next(row for row in tale.rows("journal") if row["topic"] == "notice"))


def told_again_and_again(tale: Tale) -> None:
    assert isinstance(tale.facts.told, list)
    tale.facts.told.extend([tale.facts.told[-1]] * 2)


FAULTS: dict[Plant, tuple[str, str]] = {
    second_row: ("alert", "each_alert_is_answered_once"),
    step_taken_twice: ("alert", "each_alert_is_answered_once"),
    never_ended: ("alert", "each_alert_is_answered_once"),
    second_record: ("alert", "each_alert_is_answered_once"),
    second_restart: ("alert", "one_restart_answers_one_loss"),
    window_begun_anew: ("alert", "a_window_never_moves"),
    window_moved_by_the_death: ("alert", "a_window_never_moves"),
    called_well_too_early: ("alert", "a_window_never_moves"),
    watch_left: ("alert", "a_window_never_moves"),
    rollback_decided_twice: ("failing deploy", "a_failed_version_is_rolled_back_once"),
    rollback_missing: ("failing deploy", "a_failed_version_is_rolled_back_once"),
    quarantine_missing: ("failing deploy", "a_failed_version_is_rolled_back_once"),
    done_twice_outside: ("outside action", "another_system_acts_once"),
    claimed_twice: ("outside action", "another_system_acts_once"),
    result_lost: ("outside action", "another_system_acts_once"),
    revision_doubled: ("load", "a_count_has_one_revision"),
    revision_lost: ("load", "a_count_has_one_revision"),
    never_verified: ("load", "a_count_has_one_revision"),
    scaled_besides: ("load", "a_count_has_one_revision"),
    notice_doubled: ("failing deploy", "no_notice_is_written_twice"),
    told_again_and_again: ("failing deploy", "no_notice_is_written_twice"),
}


def test_sound_stories_pass(tales: Mapping[str, Facts]) -> None:
    assert {name: audit(Tale(facts).facts) for name, facts in tales.items()} == {story.name: [] for story in STORIES}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught_by_its_rule(plant: Plant, tales: Mapping[str, Facts]) -> None:
    story, rule = FAULTS[plant]
    tale = Tale(tales[story])
    plant(tale)
    facts = dataclasses.replace(tale.facts)  # its indices are made anew
    assert rule in {found.partition(":")[0] for found in audit(facts)}


def test_every_rule_about_stories_has_a_fault_that_it_catches() -> None:
    assert {rule for _, rule in FAULTS.values()} == {rule.__name__ for rule in RULES}
