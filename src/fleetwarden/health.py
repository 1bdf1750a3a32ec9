"""Supervisory health as evidence, schema `fleet.health.v1`.  Thin names over the domain's."""

from fleetwarden.domain.health import SCHEMA, DependencyEvidence, FleetHealthEvidence, HealthStatus, roll_up

__all__ = ["SCHEMA", "DependencyEvidence", "FleetHealthEvidence", "HealthStatus", "roll_up"]
