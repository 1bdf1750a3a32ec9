"""One instance cannot be repaired for now: what else of its service is down and can.

Convergence names one need at a time, always the same one for the same sight.  Where that one is held back because it
failed again and again, the other bad instances of the service must not wait behind it.
"""

from __future__ import annotations

from fleetwarden.domain.actions import ActionRequest, Kind
from fleetwarden.domain.convergence import DETAIL_MAX, Need
from fleetwarden.domain.fleet import InstanceStatus, ObservedService

__all__ = ["OTHERS_MAX", "other_repairs"]

OTHERS_MAX = 20


def other_repairs(request: ActionRequest, observed: ObservedService) -> list[Need]:
    """Restarts of the other instances that are down, in their order; none unless one replica's restart is held."""
    held = request.params.get("replica")
    if request.kind != Kind.RESTART or held is None:
        return []
    others = [
        one
        for one in observed.instances
        if one.status is InstanceStatus.DOWN and one.id.isdigit() and int(one.id) != held
    ]
    return [
        Need(
            kind=Kind.RESTART,
            params={"replica": int(one.id)},
            reason=f"{observed.name}#{one.id} is down{f' ({one.detail[:DETAIL_MAX]})' if one.detail else ''}",
        )
        for one in others[:OTHERS_MAX]
    ]
