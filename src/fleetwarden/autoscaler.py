"""Autoscaling as a library: what one `scaling:` block makes of some numbers, and a plane's tick by hand.

Thin names over the layers.  `recommend` is the very evaluation of a running plane; it reads no store and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.app.autoscaling import Autoscaling
from fleetwarden.controllers.autoscaler import CADENCE
from fleetwarden.controllers.autoscaler_report import AutoscaleEvaluation
from fleetwarden.controllers.loop import Subscription
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.fleet import ScalingError
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.located import located
from fleetwarden.domain.recommendation import Recommendation, recommendation_for
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.signals import Aggregation

__all__ = [
    "AutoscaleEvaluation",
    "Recommendation",
    "autoscale_fleet",
    "fleet_autoscale_subscription",
    "recommend",
]


class _Ticks(Protocol):
    def tick(self, name: str) -> object:
        """One pass of one subscription by hand."""


class _Scaling(Protocol):
    @property
    def autoscaling(self) -> Autoscaling:
        """What a plane runs of autoscaling."""


def autoscale_fleet(plane: _Ticks) -> AutoscaleEvaluation | None:
    """One tick of a plane's autoscaler by hand: None if another plane leads it, or FLEET_AUTOSCALER is off.

    `plane`: a `fleetwarden.app.bootstrap.Plane`.
    """
    found = plane.tick(CADENCE)
    return found if isinstance(found, AutoscaleEvaluation) else None


def fleet_autoscale_subscription(plane: _Scaling) -> Subscription | None:
    """The subscription by which a plane ticks: its name, interval and call; None where FLEET_AUTOSCALER is off."""
    made = plane.autoscaling.subscriptions(lambda: False)
    return next((one for one in made if one.name == CADENCE), None)


def recommend(
    scaling: Mapping[str, JsonValue],
    *,
    current: int,
    signals: Mapping[str, float],
    aggregation: Mapping[str, str],
    now: float = 0,
    history: Sequence[tuple[float, int]] = (),
    changes: Sequence[tuple[float, int]] = (),
    streak: tuple[str, int] = ("", 0),
) -> Recommendation:
    """The count that a `scaling:` block recommends.

    `current`: replicas that the substrate is set to; `signals`: usable values by name (one that is left out is
    missing); `aggregation`: `fleet_total` or `per_replica` by name; `now`: seconds since 1970, for schedules;
    `history`: earlier recommendations as (age in seconds, replicas), for stabilization windows; `changes`: earlier
    changes as (age in seconds, delta), for the periods of `behavior`; `streak`: what the call before returned.

    Raises Misconfigured for a block that is not valid, naming field and reason, and for an argument out of range.
    """
    block = read_block(located(dict(scaling), "scaling"), on_kubernetes=True)
    if isinstance(block, ScalingError):
        field = f"{block.field}: " if block.field else ""
        raise Misconfigured(f"scaling block: {field}{block.reason}")
    if type(current) is not int or current < 0:
        raise Misconfigured(f"current: {current!r} is no count of replicas", hint="0 or more")
    if streak[0] not in ("", "up", "down") or type(streak[1]) is not int or streak[1] < 0:
        raise Misconfigured(f"streak: {streak!r} is none that was returned", hint='such as ("down", 2)')
    known = {one.signal for one in block.signals}
    kinds = {name: _aggregation(name, aggregation.get(name)) for name in known}
    return recommendation_for(
        block,
        current=current,
        signals={name: float(value) for name, value in signals.items() if name in known},
        aggregation=kinds,
        now=round(now * 1_000_000),
        history=history,
        changes=changes,
        streak=streak,
    )


def _aggregation(name: str, text: str | None) -> Aggregation:
    if text is None:
        return Aggregation.FLEET_TOTAL
    try:
        return Aggregation(text)
    except ValueError:
        raise Misconfigured(
            f"aggregation of {name}: {text!r} is none", hint="fleet_total (the default) or per_replica"
        ) from None
