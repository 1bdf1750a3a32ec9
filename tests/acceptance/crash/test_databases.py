"""A schema that served one world is as new for the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.crash.scenarios import SCENARIOS, stage
from tests.acceptance.crash.world import World

APPROVAL = next(one for one in SCENARIOS if one.name == "approval")


def contents(world: World) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, the test's own clock among them."""
    tables = _rows(world, "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()")
    return {one["name"]: world.database.rows(f'SELECT * FROM "{one["name"]}"') for one in tables}


def numbers(world: World) -> list[int]:
    return sorted(row["seq"] for row in world.database.rows("SELECT seq FROM outbox"))


def sequences(world: World) -> list[dict[str, Any]]:
    return _rows(world, "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()")


def _rows(world: World, sql: str) -> list[dict[str, Any]]:
    found = world.database.rows(sql)
    assert found
    return found


@pytest.mark.needs("postgresql")
def test_the_next_world_finds_no_rows_and_numbers_as_the_first_one_did(make_world: Callable[..., World]) -> None:
    used = make_world("postgresql")
    assert used.run(stage(APPROVAL, used), kill="call.after#1")
    used.database.advance(500)
    given = numbers(used)
    assert len(given) >= 2
    used.close()
    fresh = make_world("postgresql")
    assert fresh.database is used.database
    assert {name for name, rows in contents(fresh).items() if rows} == {"fleetwarden_schema", "test_clock"}
    assert fresh.database.rows("SELECT seconds FROM test_clock") == [{"seconds": 0}]
    assert {row["last_value"] for row in sequences(fresh)} == {None}
    assert fresh.run(stage(APPROVAL, fresh), kill="call.after#1")
    assert numbers(fresh) == given
