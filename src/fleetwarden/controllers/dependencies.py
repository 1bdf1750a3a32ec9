"""What a service depends on, asked once more right before the side effect.

Between a proposal and its call a dependency may have gone down or come under repair.  Then a controller's request
waits and lapses on its own; a person's is not held, as it was not when it was proposed.  It reads the look that
commit 1 rests on and the open records; it never looks itself, and a dependency that nobody can see holds nothing up.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.actions import ActionRequest, Source
from fleetwarden.domain.depends_on import holds_up, repairs
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.ports.stores import Tx

__all__ = ["dependencies_of", "dependency_wait"]


def dependencies_of(service: Service, fleet: Mapping[str, Service]) -> list[Service]:
    """The declared services that this one needs, itself not among them."""
    return [fleet[name] for name in service.depends_on if name in fleet]


def dependency_wait(
    tx: Tx,
    request: ActionRequest,
    service: Service,
    fleet: Mapping[str, Service],
    seen: Mapping[str, ObservedService],
) -> str | None:
    """Why this request has to wait for another service now, or None.  `seen`: the dependencies, looked at just now."""
    if not service.depends_on or request.source in (Source.OPERATOR, Source.API):
        return None
    return holds_up(service, request, fleet, seen, repairs(tx.outbox.in_state(*OPEN_RECORDS)))
