"""What a plane does that reconciles nothing: it looks, and carries out what people have said yes to.

For people to see, and so that health is known; what a playbook has put before a person is done once it is granted.
Nothing is proposed here.  Where several planes share the fleet each looks at its own host anyway, and one of them,
which holds the lease, makes grants into work; a grant is work once, whoever else does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.configuration import ConfigurationSource

__all__ = ["GRANTS", "OBSERVATION", "Onlooking"]

OBSERVATION = "observation"
GRANTS = "grants"
GRANTS_EVERY_S = 1.0


class Onlooking:
    """`looked` hears of every look; `pausing`: whether nothing may begin now."""

    def __init__(
        self,
        configuration: ConfigurationSource,
        sightings: Sightings,
        reconciler: Reconciler,
        *,
        looked: Callable[[Sequence[Service], Look], None],
        pausing: Callable[[], bool],
    ) -> None:
        self._configuration = configuration
        self._sightings = sightings
        self._reconciler = reconciler
        self._looked = looked
        self._pausing = pausing

    def subscriptions(self, look_every_s: float | None) -> Sequence[Subscription]:
        """What runs.  `look_every_s`: how often it looks; None where something else does."""
        grants = Subscription(name=GRANTS, interval_s=GRANTS_EVERY_S, run=self._drain, vital=False)
        if look_every_s is None:
            return [grants]
        return [Subscription(name=OBSERVATION, interval_s=look_every_s, run=self._observe, leased=False), grants]

    def _observe(self, _: LeaseFence | None) -> int:
        services = list(self._configuration.current().last_good_fleet.services.values())
        look = self._sightings.look(services)
        self._looked(services, look)
        return len(look.seen)

    def _drain(self, fence: LeaseFence | None) -> int:
        assert fence is not None
        return 0 if self._pausing() else self._reconciler.drain(fence)
