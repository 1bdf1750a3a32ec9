"""Percent and fraction mistaken for each other, from what is declared and from what is measured."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.app.scaling_views import ScalingViews
from fleetwarden.controllers.autoscaler_sight import Sight, see
from fleetwarden.domain.fleet import ObservedService, Presence, ServiceStatus
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation, Definition, Pair, Sample, SignalKind, SignalScope
from fleetwarden.domain.tracking import new_memory
from fleetwarden.domain.tracking_columns import compile_blocks
from fleetwarden.domain.unit_check import declared_problem
from fleetwarden.testing import a_fleet, a_service

NOW = 1_790_000_000 * SECOND


def block(target: float) -> ScalingBlock:
    made = read_block(located({"max": 6, "signal": "cpu", "target": target}, "fleet.yml", 3), on_kubernetes=False)
    assert isinstance(made, ScalingBlock), made
    return made


class World:
    def __init__(self, target: float, unit: str) -> None:
        self.unit = unit
        self.service = a_service("web", scaling=block(target))
        self.table = compile_blocks([("web", block(target))])
        self.memory = new_memory(self.table)
        self.at = NOW

    def see(self, value: float, **over: Any) -> Sight:
        self.at += 15 * SECOND
        pair = Pair(service="web", signal="cpu")
        fields: dict[str, Any] = {
            "service": "web",
            "signal": "cpu",
            "value": value,
            "source": "s",
            "aggregation": Aggregation.PER_REPLICA,
            "unit": self.unit,
            "scope": SignalScope.SERVICE,
            "observed_at": self.at,
        }
        seen = ObservedService(
            name="web",
            presence=Presence.STARTED,
            status=ServiceStatus.UP,
            total=3,
            existing=3,
            ready=3,
            observed_at=self.at,
            source="s",
            since=self.at,
        )
        answers = {pair: Sample(**(fields | over))}
        services, observed = {"web": self.service}, {"web": seen}
        return see(self.table, [pair], services, observed, answers, lambda *_: None, {}, self.memory, self.at)

    def told(self, value: float, **over: Any) -> str:
        """ "none" if it is not believed, "thin" if it is no reason to shrink."""
        columns = self.see(value, **over).columns
        return "none" if columns.fault[0] else "thin" if columns.no_down[0] else "good"


@pytest.mark.req("ORC-2")
@pytest.mark.parametrize(
    ("unit", "target", "wrong"),
    [
        ("percent", 60, False),
        ("percent", 0.6, True),
        ("%", 1, True),
        ("ratio", 0.6, False),
        ("fraction", 60, True),
        ("ratio", 60, True),
        ("items", 60, False),
        ("items", 0.5, False),
    ],
)
def test_a_target_that_does_not_go_with_its_unit_is_named_and_its_samples_move_nothing(
    unit: str, target: float, wrong: bool
) -> None:
    assert bool(declared_problem(unit, target)) is wrong
    definition = Definition(
        name="cpu", kind=SignalKind.CPU, unit=unit, scope=SignalScope.SERVICE, aggregation=Aggregation.PER_REPLICA
    )
    views = ScalingViews(on=True, declared=lambda *_: definition)
    fleet = a_fleet(a_service("web", scaling=block(target)))
    told = views.warnings(fleet, reconciler_on=True)
    assert bool(told) is wrong
    if wrong:
        assert "signal cpu" in told[0]
        assert World(target, unit).told(target) == "none"


@pytest.mark.req("ORC-2", "SGP-1")
def test_a_fraction_beside_a_target_in_percent_shrinks_nothing_until_percent_was_seen() -> None:
    world = World(60, "percent")
    assert [world.told(one) for one in (0.9, 0.55, 0.0)] == ["thin", "thin", "good"]
    assert [world.told(one) for one in (40.0, 0.4)] == ["good", "good"]  # it really idles now
    assert World(60, "items").told(0.9) == "good"


@pytest.mark.req("ORC-2", "SGP-1")
@pytest.mark.parametrize(
    ("unit", "value", "told"), [("fraction", 55, "none"), ("ratio", 55, "none"), ("ratio", 2, "good")]
)
def test_percent_beside_a_target_as_a_fraction_is_no_sample(unit: str, value: float, told: str) -> None:
    assert World(0.6, unit).told(value) == told


@pytest.mark.req("SIG-1", "ORC-4")
def test_a_sample_of_which_its_source_is_not_sure_shrinks_nothing() -> None:
    world = World(10, "items")
    assert [world.told(5, confidence=one) for one in (1.0, 0.5, 0.49, 0.0)] == ["good", "good", "thin", "thin"]
    assert world.told(5, confidence=7.0) == "none"
    assert "49% sure" in world.see(5, confidence=0.49).thin[0]


@pytest.mark.req("SIG-6")
def test_sources_whose_attestation_fails_are_named_in_the_warnings_of_status() -> None:
    counts = {("a", "attestation"): 3, ("a", "unattested"): 1, ("b", "stale"): 9, ("c", "unattested"): 1}
    told = ScalingViews(rejections=lambda: counts).warnings(a_fleet(), reconciler_on=True)
    assert told == [
        "4 pushed samples of source a had no attestation that holds",
        "1 pushed sample of source c had no attestation that holds",
    ]
