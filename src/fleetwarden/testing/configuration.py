"""Files that exist only in memory: what people declared, changed by a test between two looks.

As from real files, only complete snapshots come out of it, and a policy that is changed holds from the next `current`
on.  It reads no file; a FREEZE file is a path that a test says exists.
"""

from __future__ import annotations

from threading import Lock

import msgspec

from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.policy import Policy
from fleetwarden.ports.configuration import Configuration
from fleetwarden.testing.builders import a_configuration

__all__ = ["FakeConfiguration"]


class FakeConfiguration:
    """A `ConfigurationSource` with its snapshot in the open."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._lock = Lock()
        self._now = configuration if configuration is not None else a_configuration()
        self._changed = False
        self._freeze_file = ""

    def current(self) -> Configuration:
        with self._lock:
            return self._now

    def refresh(self) -> bool:
        """Whether anything was declared since the last refresh.  `current` never waits for it."""
        with self._lock:
            changed, self._changed = self._changed, False
            return changed

    def freeze_file(self) -> str:
        return self._freeze_file

    def freeze(self, path: str = "FREEZE") -> None:
        """Say that a FREEZE file exists; an empty path takes it away."""
        self._freeze_file = path

    def declare(self, *, fleet: Fleet | None = None, policy: Policy | None = None) -> None:
        """Replace the registry, the policy, or both at once; a fleet with an error leaves the last good one on show."""
        with self._lock:
            fleet = self._now.fleet if fleet is None else fleet
            self._now = msgspec.structs.replace(
                self._now,
                fleet=fleet,
                last_good_fleet=self._now.last_good_fleet if fleet.error else fleet,
                policy=self._now.policy if policy is None else policy,
            )
            self._changed = True

    def declare_service(self, service: Service) -> None:
        """Add one service, or replace the one of that name."""
        fleet = self.current().fleet
        self.declare(fleet=msgspec.structs.replace(fleet, services={**fleet.services, service.name: service}))
