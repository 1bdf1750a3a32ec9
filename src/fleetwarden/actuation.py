"""Actuation: the seam for what changes a fleet, the one that changes nothing, and the ledger's row of what was done.

Thin names over the layers.  Give an actuator of your own to `fleetwarden.wiring.set_fleet_actuator`.
"""

from fleetwarden.adapters.substrates.dry_run import DryRunActuator
from fleetwarden.domain.actions import ActionExecution, Outcome
from fleetwarden.ports.actuation import ActuationCall, FleetActuator

__all__ = ["ActionExecution", "ActuationCall", "DryRunActuator", "FleetActuator", "Outcome"]
