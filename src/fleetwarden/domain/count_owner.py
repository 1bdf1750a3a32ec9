"""Whose a service's count is, asked in one place: what another controller writes is not scaled, stopped or started.

A restart leaves the count alone and is nobody's business but ours, whoever writes it.  Nothing is decided here beyond
the ownership itself, and nobody can wave it aside: policy, grants and broken glass are about our own actions.
"""

from __future__ import annotations

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.fleet import Service

__all__ = ["not_ours"]

_COUNTS = frozenset({Kind.SCALE, Kind.STOP, Kind.START})


def not_ours(service: Service, kind: str) -> str | None:
    """Why an action of this kind would write a count that belongs to another controller, or None if it would not."""
    owner = "native" if service.scaling is None else service.scaling.controller_mode
    if owner == "native" or kind not in _COUNTS:
        return None
    return f"the count of {service.name} is written by {owner}: {kind} is refused here"
