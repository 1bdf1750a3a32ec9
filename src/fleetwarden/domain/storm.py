"""The storm breaker: when so much is sick at once that repairing it automatically would make it worse.

A service is sick if it went down or unknown within the last ten minutes after it had been up, or if a restart, stop,
deploy or rollback of it is in flight.  What was never seen up, what is meant to be stopped and what is only being
scaled is not.  From max(a number, a share) of sick services on, in the whole fleet or in a group of three or more, the
breaker is open; it closes when there were fewer for five minutes, or when a person closes it.  Pure: looks and times
in, states out.  It decides nothing; policy reads what is open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from fleetwarden.domain.actions import Kind, Record
from fleetwarden.domain.fleet import DesiredState, ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros

__all__ = [
    "CALM",
    "FLEET",
    "IN_FLIGHT",
    "RECENT",
    "Breaker",
    "Memory",
    "Sickness",
    "StormLimits",
    "Storms",
    "after_clear",
    "group_scope",
    "sickness",
    "step",
]

RECENT: Micros = 600 * SECOND  # how long a service that went down counts as sick
CALM: Micros = 300 * SECOND  # how long it has to be calmer before the breaker closes by itself
GROUP_MIN = 3  # members from which a group has a breaker of its own
FLEET = ""
IN_FLIGHT = frozenset({Kind.RESTART, Kind.STOP, Kind.DEPLOY, Kind.ROLLBACK})
NAMES_KEPT = 20
_WELL = (ServiceStatus.UP, ServiceStatus.DEGRADED)


class StormLimits(Record):
    """`least`: services (≥ 1); `percent` of the scope's services (0 to 100).  The larger of both opens the breaker."""

    least: int = 3
    percent: float = 30.0

    def threshold(self, total: int) -> int:
        """How many sick services of `total` open the breaker: a share is rounded up, so that 30 % of 11 are 4."""
        share = -int(-(total * self.percent) // 100)
        return max(self.least, share)


class Breaker(Record):
    """An open breaker.  `calm_since`: since when there are fewer than `threshold`, None while there are not."""

    since: Micros
    sick: int
    total: int
    threshold: int
    names: tuple[str, ...] = ()
    calm_since: Micros | None = None


class Storms(Record):
    """What is open, by scope ("" for the fleet, `group:NAME`).  `cleared_at`: what fell before does not count."""

    open: Mapping[str, Breaker] = {}
    cleared_at: Micros | None = None
    excused: tuple[str, ...] = ()  # sick when a person closed it: they count again once they were up

    def for_group(self, group: str) -> Breaker | None:
        """The breaker that covers a service of this group, the fleet's first."""
        return self.open.get(FLEET) or (self.open.get(group_scope(group)) if group else None)

    def document(self) -> dict[str, JsonValue]:
        """As it is stored."""
        stored: dict[str, JsonValue] = msgspec.to_builtins(self)
        return stored

    @classmethod
    def read(cls, stored: JsonValue) -> Storms:
        """From what is stored; nothing stored is a calm fleet.  Raises msgspec.ValidationError."""
        return cls() if stored is None else msgspec.convert(stored, cls)


class Sickness(Record):
    """Who is sick in one scope, of how many."""

    names: tuple[str, ...]
    total: int


class Memory:
    """What one plane has seen since it began: who was up, and when who of them fell.  Not thread-safe."""

    def __init__(self) -> None:
        self._up: set[str] = set()
        self.fell: dict[str, Micros] = {}

    def look(self, services: Iterable[Service], seen: Mapping[str, ObservedService], at: Micros) -> set[str]:
        """Take in a look; returns who of these was up.  A service that nobody saw keeps what is known of it."""
        well: set[str] = set()
        for service in services:
            name, observed = service.name, seen.get(service.name)
            if service.desired is DesiredState.STOPPED:
                self._up.discard(name)
                self.fell.pop(name, None)
            elif observed is None:
                continue
            elif observed.status in _WELL:
                well.add(name)
                self._up.add(name)
                self.fell.pop(name, None)
            elif observed.presence is Presence.STARTED and name in self._up:
                self.fell.setdefault(name, at)
            else:  # stopped on purpose, by us or by somebody: no failure
                self.fell.pop(name, None)
        return well

    def keep(self, names: Collection[str]) -> None:
        """Forget services that are not declared any more."""
        self._up.intersection_update(names)
        for name in [name for name in self.fell if name not in names]:
            del self.fell[name]


def group_scope(group: str) -> str:
    """The scope of a group's own breaker."""
    return f"group:{group}"


def sickness(
    services: Mapping[str, Service],
    fell: Mapping[str, Micros],
    in_flight: Mapping[str, str],
    storms: Storms,
    now: Micros,
) -> dict[str, Sickness]:
    """Who is sick, in the fleet and in each group of three or more.  `in_flight`: open actions by target."""
    excused = frozenset(storms.excused)
    cleared = storms.cleared_at if storms.cleared_at is not None else -1
    ill = {name for name, at in fell.items() if now - at <= RECENT and at > cleared and name in services}
    ill |= {name for name, kind in in_flight.items() if kind in IN_FLIGHT and name in services}
    ill -= excused
    members: dict[str, int] = {FLEET: len(services)}
    for service in services.values():
        if service.group:
            scope = group_scope(service.group)
            members[scope] = members.get(scope, 0) + 1
    names: dict[str, list[str]] = {}
    for name in sorted(ill):
        names.setdefault(FLEET, []).append(name)
        if services[name].group:
            names.setdefault(group_scope(services[name].group), []).append(name)
    return {
        scope: Sickness(names=tuple(names.get(scope, ())), total=total)
        for scope, total in members.items()
        if scope == FLEET or total >= GROUP_MIN
    }


def step(
    storms: Storms, found: Mapping[str, Sickness], limits: StormLimits, now: Micros, *, recovered: Collection[str] = ()
) -> Storms:
    """What is open after this look.  `recovered`: who was seen up, and so is excused no longer."""
    still: dict[str, Breaker] = {}
    for scope, one in found.items():
        threshold, known = limits.threshold(one.total), storms.open.get(scope)
        names = one.names[:NAMES_KEPT]
        if len(one.names) >= threshold:
            since = now if known is None else known.since
            still[scope] = Breaker(since=since, sick=len(one.names), total=one.total, threshold=threshold, names=names)
        elif known is not None:
            calm = now if known.calm_since is None else known.calm_since
            if now - calm < CALM:
                still[scope] = msgspec.structs.replace(known, calm_since=calm)
    excused = tuple(name for name in storms.excused if name not in recovered)
    return msgspec.structs.replace(storms, open=still, excused=excused)


def after_clear(storms: Storms, found: Mapping[str, Sickness], now: Micros) -> Storms:
    """A person closes it: who is sick now counts again only after having been up."""
    ill = {name for one in found.values() for name in one.names}
    ill |= {name for one in storms.open.values() for name in one.names}
    return Storms(open={}, cleared_at=now, excused=tuple(sorted({*storms.excused, *ill})))
