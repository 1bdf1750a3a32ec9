"""Observation: the seam for what sees a fleet, and what it reports.

Thin names over the layers.  Give an observer of your own to `fleetwarden.wiring.set_fleet_observer`.
"""

from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Presence, ServiceStatus
from fleetwarden.ports.observation import FleetObserver

__all__ = ["FleetObserver", "InstanceStatus", "ObservedInstance", "ObservedService", "Presence", "ServiceStatus"]
