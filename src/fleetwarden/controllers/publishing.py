"""What a host's plane sees, published for the planes of other hosts, and what those have published, read back.

Every plane looks at its own host, whether it leads or stands by, and dates what it publishes with the store's time at
which the look began.  Nothing is invented: what was not seen is not published, and what was published is as old as it
says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from fleetwarden.controllers.placement import PlacedConfiguration
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CADENCE", "Publisher", "published_elsewhere"]

log = structlog.get_logger(__name__)
CADENCE = "host_observer"
LEADER = "fleet_reconciler"


def published_elsewhere(host: str) -> Callable[[Tx, Sequence[Service]], Mapping[str, ObservedService]]:
    """For `Sightings`: what the plane of each service's own host has published of it, for services of other hosts."""

    def read(tx: Tx, services: Sequence[Service]) -> Mapping[str, ObservedService]:
        owners = {one.name: one.process.host for one in services if one.process is not None}
        if all(owner in ("", host) for owner in owners.values()):
            return {}
        known = tx.hosts.seen(besides=host)
        return {name: known[owner, name] for name, owner in owners.items() if (owner, name) in known}

    return read


class Publisher:
    """Looks at the whole fleet as this plane can, and publishes what is on its host.

    `looked` hears of each look (health rests on it).
    """

    def __init__(
        self,
        store: Store,
        configuration: PlacedConfiguration,
        sightings: Sightings,
        wakes: Wakes,
        looked: Callable[[Sequence[Service], Look], None],
        *,
        host: str,
        holder: str,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._wakes = wakes
        self._looked = looked
        self._host = host
        self._holder = holder

    def run(self) -> bool:
        """One look; returns whether it published anything new but dates.  Raises StoreUnavailable."""
        self._configuration.learn()
        configuration = self._configuration.current()
        services = list(configuration.last_good_fleet.services.values())
        look = self._sightings.look(services)
        self._looked(services, look)
        own = {
            one.name: look.seen[one.name]
            for one in services
            if one.process is not None and one.process.host == self._host and one.name in look.seen
        }
        changed = self._store.transact("publish", lambda tx: self._publish(tx, look, own))
        if changed is None:
            log.info("a later look is published already", host=self._host)
        return bool(changed)

    def _publish(self, tx: Tx, look: Look, own: Mapping[str, ObservedService]) -> bool | None:
        for name, one in own.items():  # what runs here since before there were other hosts belongs here
            if one.existing and self._configuration.unclaimed(name):
                tx.placements.claim(name, self._host)
        changed = tx.hosts.publish(self._host, self._holder, look.at, own)
        if changed:
            tx.after_commit(self._wakes.waker(LEADER))
        return changed
