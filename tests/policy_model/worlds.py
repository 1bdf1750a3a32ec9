"""Random policies, overrides, ledgers and requests, made so that rules often match, tie and contradict each other.

Everything of one world follows from its number alone, so a case is named by (world, place) and can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tests.policy_model.model import TIERS, WEEK, Use

CASES_A_WORLD = 50
YEAR_US = 365 * 86_400 * 1_000_000
NEW_YEAR_US = 1_767_225_600 * 1_000_000  # 2026-01-01T00:00:00Z
KINDS = ("restart_service", "restart_service", "scale_service", "deploy_service", "diagnose", "own", "own:step")
KIND_PATTERNS = (*KINDS, "*", "*", "*_service", "restart_*", "?wn", "own*", "[a-z]*e", "*[!e]", "own:st[!a]p")
TARGETS = ("a", "b", "ab", "ba", "aa", "abc", "abab", "cab", "web-1", "web-2", "db")
TARGET_PATTERNS = (*TARGETS, "*", "*", "a*", "*a", "*b*", "?", "??", "a?", "a*b", "[ab]*", "[!a]*", "web-*", "web-[12]",
                   "*-?", "*a*b*", "ab*", "a**", "[]a]?", "*b")  # fmt: skip
HOURS = ("00:00-12:00", "12:00-24:00", "22:00-04:00", "04:00-22:00", "06:30-06:31", "23:59-00:01", "00:00-24:00")
SPANS = (1, 10, 60, 600, 3600, 86_400)
SOURCES = ("api", "operator", "reconciler")
WAIVABLE = ("tier", "min_healthy", "blast", "window", "rate", "freeze", "storm")


class World(NamedTuple):
    """`stored` are override records as they are kept: (id, record, active); `on` the rules of those that count."""

    number: int
    policy: dict[str, Any]
    stored: list[tuple[str, dict[str, Any], bool]]
    on: dict[str, dict[str, Any]]


class Asked(NamedTuple):
    """One request with its surroundings."""

    request: dict[str, Any]
    uses: list[Use]
    situation: dict[str, Any]
    now: int
    waives: frozenset[str]
    own: int | None


def world(number: int) -> World:
    chance = Random(f"policy world {number}")
    size = chance.choice((0, 1, 2, 4, 8, 20))
    defaults: dict[str, Any] = {} if chance.random() < 0.5 else {"tier": chance.choice(TIERS)}
    policy = {
        "version": 1,
        "defaults": defaults | blocks(chance, 0.3),
        "rules": [rule(chance) for _ in range(size)],
    }
    stored, on = [], {}
    for place in range(chance.choice((0, 0, 1, 2, 4))):
        made, name = rule(chance), f"o{place}"
        record, active = kept(chance, made)
        stored.append((name, record, active))
        if active and record.get("active") is not False:
            on[name] = made
    return World(number, policy, stored, on)


def kept(chance: Random, made: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A rule as the store may hold it: flat, as a payload, as text; on, off in its row, or off in itself."""
    form = chance.randrange(3)
    record: dict[str, Any] = dict(made) if form == 0 else {"rule_json": made if form == 1 else json.dumps(made)}
    if chance.random() < 0.3:
        record["scope"] = "action_policy"
    if chance.random() < 0.3:
        record["active"] = chance.random() < 0.5
    return record, chance.random() < 0.8


def rule(chance: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"tier": chance.choice(TIERS)}
    if chance.random() < 0.9:
        made["kind"] = chance.choice(KIND_PATTERNS)
    if chance.random() < 0.9 or "kind" not in made:
        made["target"] = chance.choice(TARGET_PATTERNS)
    for name, among in (("group", ("g", "h")), ("source", SOURCES), ("substrate", ("process",)),
                        ("direction", ("up", "down"))):  # fmt: skip
        if chance.random() < 0.15:
            made[name] = chance.choice(among)
    if chance.random() < 0.15:
        made["final"] = chance.random() < 0.8
    return made | blocks(chance, 0.25)


def blocks(chance: Random, often: float) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if chance.random() < often:
        made["rate_limit"] = {"max": chance.choice((0, 1, 2, 3, 5)), "window_s": chance.choice(SPANS)}
    if chance.random() < often:
        made["blast_radius"] = {"max_targets": chance.choice((0, 1, 2, 3, 5)), "window_s": chance.choice(SPANS)}
    if chance.random() < often:
        made["maintenance_window"] = window(chance)
    return made


def window(chance: Random) -> Any:
    hours = chance.choice(HOURS)
    if chance.random() < 0.5:
        return hours
    made: dict[str, Any] = {"hours": hours}
    if chance.random() < 0.6:
        made["zone"] = chance.choice(
            ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
        )
    if chance.random() < 0.6:
        made["days"] = chance.sample(WEEK, chance.randint(1, 7))
    if chance.random() < 0.3:
        made["except"] = sorted({f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}" for _ in range(3)})
    return made


def asked(of: World) -> Iterator[Asked]:
    chance = Random(f"policy cases {of.number}")
    for _ in range(CASES_A_WORLD):
        now = NEW_YEAR_US + chance.randrange(YEAR_US)
        if chance.random() < 0.3:  # exactly on a minute, where windows open and close
            now -= now % 60_000_000
        uses = ledger(chance, now)
        yield Asked(
            request=request(chance),
            uses=uses,
            situation=situation(chance),
            now=now,
            waives=frozenset(chance.sample(WAIVABLE, chance.randint(1, 4))) if chance.random() < 0.3 else frozenset(),
            own=chance.choice(uses).number if uses and chance.random() < 0.3 else None,
        )


def ledger(chance: Random, now: int) -> list[Use]:
    kinds = chance.choice((("restart_service",), KINDS))
    return [
        Use(number, chance.choice(kinds), chance.choice(TARGETS[: chance.choice((2, 11))]), now - age(chance),
            chance.random() < 0.2)
        for number in range(1, chance.choice((0, 1, 3, 6, 12)) + 1)
    ]  # fmt: skip


def age(chance: Random) -> int:
    """Microseconds ago, often just at an edge, now and then in the future (a clock was stepped back)."""
    return chance.choice(SPANS) * 1_000_000 + chance.choice((-1, 0, 1, -999_999)) - chance.choice((0,) * 9 + (YEAR_US,))


def request(chance: Random) -> dict[str, Any]:
    kind = chance.choice(KINDS)
    params: dict[str, Any] = {}
    if kind == "scale_service":
        params = {"replicas": chance.choice((0, 1, 5, 5, 5, "5", -1, True))}
    elif kind == "deploy_service":
        params = chance.choice(({"version": "2"}, {"version": "2", "irreversible": True}, {}))
    elif kind == "restart_service":
        params = chance.choice(({}, {}, {}, {"replica": 0}, {"replicas": 1}))
    return {
        "kind": kind,
        "target": chance.choice(TARGETS),
        "params": params,
        "source": chance.choice(SOURCES),
        "group": chance.choice(("", "g", "h")),
        "substrate": chance.choice(("", "process")),
        "direction": chance.choice(("", "up", "down")),
        "dry_run": chance.random() < 0.2,
    }


def situation(chance: Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if chance.random() < 0.06:
        made["freezes"] = ("frozen by eve",)
    if chance.random() < 0.04:
        made["freeze_file"] = "/data/FREEZE"
    if chance.random() < 0.08:
        made["storm"] = "a storm"
    if chance.random() < 0.15:
        made["min_healthy"] = "too few are healthy"
    return made
