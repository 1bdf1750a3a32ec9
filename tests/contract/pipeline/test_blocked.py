"""Services that are down and whose repair is held up: told once, again after four hours, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.controllers.blocked import AGAIN_AFTER, INCIDENT, BlockedRepairs
from fleetwarden.controllers.condition import Condition
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.fleet import Mode
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.storm import StormLimits
from fleetwarden.ports.stores import JournalEntry, Page
from fleetwarden.testing import a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import INTERVAL_S, Bench
from tests.contract.store.conftest import Database, sqlite

__all__ = ["sqlite"]  # the fixture


class World:
    """A bench whose passes are followed by a look at what stays held up."""

    def __init__(self, database: Database, *, tier: Tier = Tier.APPROVAL_REQUIRED, services: int = 1) -> None:
        self.bench = Bench(database.open(), database.clock)
        self.names = ["web"] if services == 1 else [f"s{number}" for number in range(services)]
        fleet = a_fleet(*(a_service(name, replicas=2) for name in self.names))
        self.bench.files.declare(fleet=fleet, policy=a_policy(tier))
        for name in self.names:
            self.bench.substrate.boot(name, 2)
            assert self.bench.substrate.crash(name, 0)
            assert self.bench.substrate.crash(name, 1)
        self.leads = True
        self.build()

    def build(self) -> None:
        """As after a restart: only the store remembers."""
        bench = self.bench
        bench.build()
        self.blocked = BlockedRepairs(
            bench.store,
            bench.files,
            standings=bench.reconciler.standings,
            seen=bench.sightings.last,
            lease=lambda: bench.fence(RECONCILER) if self.leads else None,
            after=300 * SECOND,
        )

    def minutes(self, number: float, step_s: float = 60) -> None:
        for _ in range(round(number * 60 / step_s)):
            self.bench.clock.advance(step_s)
            self.bench.reconciler.run(self.bench.fence(RECONCILER))
            self.blocked.run()

    def told(self) -> list[JournalEntry]:
        """Oldest first."""
        listed = self.bench.store.read(lambda tx: tx.journal.list(Page(kind="notice", limit=500)))
        return [one for one in reversed(listed) if one.detail.get("incident") == INCIDENT]


@pytest.mark.req("REC-12")
def test_it_is_told_once_with_the_reason_and_what_releases_it_and_again_after_four_hours(sqlite: Database) -> None:
    world = World(sqlite)
    world.minutes(5)
    assert world.told() == []
    world.minutes(2)
    [page] = world.told()
    [approval] = world.bench.store.read(lambda tx: tx.approvals.open_of("web"))
    assert (page.severity, page.subject) == ("critical", "web")
    assert page.summary.startswith("web is down and its repair is held up for 5 min: ")
    assert page.summary.endswith(f"What releases it: fleetwarden approvals grant {approval.id}")
    world.minutes(230, step_s=600)
    assert len(world.told()) == 1
    world.minutes(20, step_s=600)
    assert [one.detail["times"] for one in world.told()] == [1, 2]
    assert world.told()[1].at - page.at >= AGAIN_AFTER


@pytest.mark.req("REC-12")
def test_recovery_closes_it_and_the_next_time_is_another_one(sqlite: Database) -> None:
    world = World(sqlite)
    world.minutes(7)
    world.bench.substrate.boot("web", 2)
    world.minutes(1)
    closing = world.told()[-1]
    assert (closing.severity, closing.detail["closed"], len(world.told())) == ("info", True, 2)
    assert world.bench.store.read(lambda tx: tx.blocked.all()) == {}
    world.minutes(10)
    assert len(world.told()) == 2


@pytest.mark.req("REC-12")
def test_what_nobody_was_told_of_is_closed_silently(sqlite: Database) -> None:
    world = World(sqlite)
    world.minutes(3)
    world.bench.substrate.boot("web", 2)
    world.minutes(10)
    assert world.told() == []


@pytest.mark.req("REC-12")
def test_a_restart_and_another_leader_neither_repeat_nor_forget_it(sqlite: Database) -> None:
    world = World(sqlite)
    world.minutes(3)
    world.build()
    world.minutes(4)
    assert len(world.told()) == 1
    world.build()
    world.blocked.run()  # before its first pass it knows nothing, and neither tells nor closes
    world.minutes(60)
    assert len(world.told()) == 1
    world.leads = False
    world.bench.substrate.boot("web", 2)
    world.minutes(1)
    assert len(world.told()) == 1  # the plane that leads closes it
    world.leads = True
    world.minutes(1)
    assert len(world.told()) == 2


@pytest.mark.req("REC-12")
@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("forbidden", "fleetwarden policy explain restart_service web"),
        ("frozen", "fleetwarden freeze off"),
        ("frozen service", "fleetwarden freeze off --service web"),
        ("frozen twice", "fleetwarden freeze status"),
        ("frozen by a file", "remove the FREEZE file"),
        ("rejected", "fleetwarden action propose restart_service web --reason …"),
        ("storm", "fleetwarden storm clear --reason …"),
    ],
)
def test_each_reason_has_its_command(sqlite: Database, what: str, command: str) -> None:
    tiers = {"forbidden": Tier.FORBIDDEN, "rejected": Tier.APPROVAL_REQUIRED}
    world = World(sqlite, tier=tiers.get(what, Tier.AUTO))
    store: Any = world.bench.store
    if what == "frozen":
        store.transact("freeze", lambda tx: tx.freezes.add(scope="all", value="", owner="kim", reason="", until=None))
    if what in ("frozen service", "frozen twice"):  # a freeze of all would end with the others
        scopes = [("service", "web"), ("service", "other"), *([("kind", "restart_service")] * (what == "frozen twice"))]
        for scope, value in scopes:
            store.transact(
                "freeze",
                lambda tx, s=scope, v=value: tx.freezes.add(scope=s, value=v, owner="k", reason="", until=None),
            )
    if what == "frozen by a file":
        world.bench.files.freeze("/etc/fleet/FREEZE")
    if what == "storm":  # no sick service is needed for it, so that every look leaves it open
        world.bench.reconciler._condition = Condition(store, limits=StormLimits(least=0, percent=0))
    if what == "rejected":
        world.bench.look()
        [asked] = world.bench.approvals()
        world.bench.reconciler._restraint = Restraint(store, interval_s=INTERVAL_S, rejected_hold_s=3600)
        world.bench.desk.reject(asked.seq, by="ada", reason="not now")
    world.minutes(7)
    [page] = world.told()
    assert page.detail["command"] == command, page.summary


@pytest.mark.req("REC-12")
def test_what_is_not_ours_to_repair_is_no_news_and_what_becomes_so_is_closed(sqlite: Database) -> None:
    world = World(sqlite)
    world.bench.files.declare(fleet=a_fleet(a_service("web", replicas=2, mode=Mode.OBSERVE)))
    world.minutes(10)
    assert world.told() == []
    world.bench.files.declare(fleet=a_fleet(a_service("web", replicas=2)))
    world.minutes(7)
    world.bench.files.declare(fleet=a_fleet(a_service("other", replicas=0)))
    world.minutes(1)
    assert [one.detail["closed"] for one in world.told()] == [False, True]


@pytest.mark.req("REC-12", "POL-15")
def test_a_storm_is_one_notice_and_so_is_its_end(sqlite: Database) -> None:
    world = World(sqlite, services=30)
    world.bench.files.freeze("/etc/fleet/FREEZE")
    world.minutes(8)
    [page] = world.told()
    assert page.summary.startswith("30 services are down and their repair is held up: s0, s1, ")
    assert "and 10 more" in page.summary
    for name in world.names:
        world.bench.substrate.boot(name, 2)
    world.minutes(2)
    assert [one.detail["closed"] for one in world.told()] == [False, True]
