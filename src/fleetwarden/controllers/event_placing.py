"""Giving each event its service, by the registry as it is now.

The arrangement of all `match:` entries is made once for each reading of the files.  While the registry cannot be read,
its last good reading decides: an event must not lose its service because of a typing mistake elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import msgspec

from fleetwarden.domain.event_matching import Matcher
from fleetwarden.domain.events import FleetEvent
from fleetwarden.domain.fleet import Fleet
from fleetwarden.ports.configuration import ConfigurationSource

__all__ = ["EventPlacing"]


class EventPlacing:
    """Matches events to the services of the fleet."""

    def __init__(self, configuration: ConfigurationSource) -> None:
        self._configuration = configuration
        self._lock = Lock()
        self._fleet: Fleet | None = None
        self._matcher = Matcher(())

    def placed(self, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        """The events, each with its service or None."""
        matcher = self._current()
        return [msgspec.structs.replace(one, service=matcher.service_of(one)) for one in events]

    def _current(self) -> Matcher:
        fleet = self._configuration.current().last_good_fleet
        with self._lock:
            if fleet is not self._fleet:
                self._matcher = Matcher((name, one.match) for name, one in fleet.services.items())
                self._fleet = fleet
            return self._matcher
