"""Autoscaling as a library: what one `scaling:` block makes of some numbers, and a plane's tick by hand.

Thin names over the layers.  `recommend` is the very evaluation of a running plane; it reads no store and no clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

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


COUNT_MAX: Final = 1_000_000_000  # replicas; also the longest streak
SECONDS_MAX: Final = 1e11  # an age or a time beyond it is a mistake of units


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
    if not _count(current):
        raise Misconfigured(f"current: {current!r} is no count of replicas", hint=f"0 to {COUNT_MAX:,}")
    if not (_pair(streak) and streak[0] in ("", "up", "down") and _count(streak[1])):
        raise Misconfigured(f"streak: {streak!r} is none that was returned", hint='such as ("down", 2)')
    if not (_number(now) and 0 <= now <= SECONDS_MAX):
        raise Misconfigured(f"now: {now!r} is no time", hint="seconds since 1970")
    for name, value in signals.items():
        if not _number(value):
            raise Misconfigured(f"signal {name}: {value!r} is no number")
    for what, entries in (("history", history), ("changes", changes)):
        for one in entries:
            least = 0 if what == "history" else -COUNT_MAX
            if not (_pair(one) and _number(one[0]) and 0 <= one[0] <= SECONDS_MAX and _count(one[1], least)):
                raise Misconfigured(f"{what}: {one!r} is no entry", hint="(age in seconds, a count)")
    known = {one.signal for one in block.signals}
    kinds = {name: _aggregation(name, text) for name, text in aggregation.items()}
    return recommendation_for(
        block,
        current=current,
        signals={name: _float(value) for name, value in signals.items() if name in known},
        aggregation=kinds,
        now=round(now * 1_000_000),
        history=history,
        changes=changes,
        streak=streak,
    )


def _pair(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2


def _number(value: object) -> bool:
    return type(value) in (int, float)


def _count(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value <= COUNT_MAX


def _float(value: float) -> float:
    """An int beyond every float is as good as infinite: it is no usable sample."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _aggregation(name: str, text: str) -> Aggregation:
    try:
        return Aggregation(text)
    except ValueError:
        raise Misconfigured(
            f"aggregation of {name}: {text!r} is none", hint="fleet_total (the default) or per_replica"
        ) from None
