"""The fleet's condition after a look: whether there is a storm, and how healthy each group is.

What a pass writes down before it proposes anything, for the gate to read.  It proposes and decides nothing.
"""

from __future__ import annotations

from fleetwarden.controllers.group_health import GroupHealth
from fleetwarden.controllers.sightings import Look
from fleetwarden.controllers.storm_watch import StormWatch
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.storm import StormLimits
from fleetwarden.ports.stores import Store

__all__ = ["Condition"]


class Condition:
    """`max_age_s`: how old a look may be and still say that a service is healthy."""

    def __init__(self, store: Store, *, limits: StormLimits | None = None, max_age_s: float = 240.0) -> None:
        self._storms = StormWatch(store, limits=limits or StormLimits())
        self._groups = GroupHealth(store, max_age_s=max_age_s)

    def run(self, fleet: Fleet, look: Look, fence: LeaseFence) -> None:
        """Take in a look at some or all of the fleet.  Raises Fenced, StoreUnavailable."""
        if fleet.error:
            return
        self._storms.run(fleet, look, fence)
        self._groups.run(fleet, look, fence)
