"""What events say of a service, and how little that is next to somebody who looks."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.events import EventClass, FleetEvent, Phase
from fleetwarden.domain.fleet import DesiredState, ObservedService, ServiceStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.testing import a_fleet, a_service
from tests.contract.pipeline.conftest import Bench
from tests.contract.store.conftest import Database, sqlite
from tests.unit.events.test_correlation import an_event

__all__ = ["sqlite"]  # the fixture


@pytest.fixture
def unseen(sqlite: Database) -> Bench:
    """A fleet that nothing looks at; the store goes by the clock that a test moves."""
    made = Bench(sqlite.open(), sqlite.clock)
    made.substrate.boot("web", 2)
    made.sightings.observers = ()
    return made


def tell(bench: Bench, *events: FleetEvent) -> None:
    bench.store.transact("events", lambda tx: tx.events.put(events))


def firing(bench: Bench, ago_s: float = 0, **over: Any) -> FleetEvent:
    return an_event(starts_at=bench.clock.now() - int(ago_s * SECOND), **over)


def over(bench: Bench, begun: FleetEvent) -> FleetEvent:
    return an_event(Phase.RESOLVED, starts_at=begun.starts_at, ends_at=bench.clock.now(), fingerprint=begun.fingerprint)


def told(bench: Bench) -> ObservedService | None:
    return bench.sightings.look_at(bench.files.current().fleet.services["web"])


def status(bench: Bench) -> str | None:
    found = told(bench)
    return None if found is None else found.status.value


@pytest.mark.req("OBS-2")
def test_a_firing_alert_is_down_and_its_end_is_up(unseen: Bench) -> None:
    assert status(unseen) is None
    down = firing(unseen)
    tell(unseen, down)
    assert status(unseen) == "down"
    unseen.clock.advance(1)
    tell(unseen, over(unseen, down))
    assert status(unseen) == "up"
    found = told(unseen)
    assert found is not None
    assert (found.source, found.total, found.existing) == ("events", 2, 0)


@pytest.mark.req("OBS-3")
def test_one_alerts_end_leaves_the_other_firing_and_returns_are_counted(unseen: Bench) -> None:
    first, second = firing(unseen), firing(unseen, fingerprint="f2")
    tell(unseen, first, second)
    unseen.clock.advance(1)
    tell(unseen, over(unseen, first))
    assert status(unseen) == "down"
    unseen.clock.advance(1)
    tell(unseen, firing(unseen))
    found = told(unseen)
    assert found is not None
    assert found.detail == "2 alerts of it firing; it began again 1 time within 30 min"


@pytest.mark.req("OBS-3", "EVT-5")
def test_what_is_no_outage_and_what_is_about_nothing_says_nothing(unseen: Bench) -> None:
    tell(
        unseen,
        firing(unseen, class_=EventClass.PRESSURE),
        firing(unseen, fingerprint="f2", service=None),
        an_event(Phase.NOTE, fingerprint="f3", class_=EventClass.DOWN),
    )
    assert status(unseen) is None
    assert unseen.look().proposed == 0


@pytest.mark.req("OBS-3")
def test_whoever_looks_outranks_an_alert_old_or_new(unseen: Bench) -> None:
    tell(unseen, firing(unseen, ago_s=1200))
    unseen.sightings.observers = (unseen.substrate,)
    assert status(unseen) == "up"
    tell(unseen, firing(unseen, fingerprint="new"))
    assert status(unseen) == "up"
    unseen.settle_down()
    assert unseen.calls() == 0


@pytest.mark.req("OBS-1", "OBS-3")
def test_where_an_observer_is_blind_events_do_not_take_its_place(unseen: Bench) -> None:
    unseen.sightings.observers = (unseen.substrate,)
    unseen.substrate.failing = "its engine does not answer"
    tell(unseen, firing(unseen))
    assert status(unseen) is None


@pytest.mark.req("OBS-3")
def test_an_alert_is_evidence_only_as_long_as_other_evidence_is(unseen: Bench) -> None:
    down = firing(unseen)
    tell(unseen, down)
    unseen.clock.advance(61)
    assert status(unseen) is None
    tell(unseen, down)  # it was delivered again: it is said to last
    assert status(unseen) == "down"


@pytest.mark.req("OBS-2", "REC-3")
def test_a_service_that_only_events_know_is_restarted_once_for_one_statement(unseen: Bench) -> None:
    down = firing(unseen)
    tell(unseen, down)
    unseen.settle_down()
    assert [one.request.kind for one in unseen.records()] == [Kind.RESTART]
    assert unseen.calls() == 1
    unseen.clock.advance(5)
    unseen.settle_down()
    assert unseen.calls() == 1  # what was said before the restart is no reason for another


@pytest.mark.req("OBS-2")
def test_an_alert_stops_and_scales_nothing(unseen: Bench) -> None:
    unseen.files.declare(fleet=a_fleet(a_service("web", replicas=5, desired=DesiredState.STOPPED)))
    tell(unseen, firing(unseen))
    unseen.settle_down()
    unseen.files.declare(fleet=a_fleet(a_service("web", replicas=7)))
    down = firing(unseen, fingerprint="f2")
    unseen.clock.advance(61)
    tell(unseen, down, over(unseen, down))
    assert status(unseen) == ServiceStatus.UP.value
    unseen.settle_down()
    assert unseen.records() == []
