"""A failure that comes back, put before a person by whoever noticed it.

For code of a deployment that counts failures of its own; the plane does it by itself for events.  It only proposes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetwarden.controllers.escalating import escalate_to_people
from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, Source
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.playbooks import FAILURES_MAX
from fleetwarden.ports.stores import Tx

if TYPE_CHECKING:
    from fleetwarden.app.parts import Parts

__all__ = ["escalate_repeated_failure"]


def escalate_repeated_failure(plane: Parts, service: str, *, failures: int, reason: str, source: str) -> str | None:
    """Ask a person, once, to find out why a service keeps failing; returns the approval's id, None below three.

    `failures`: how many in a row (≥ 0).  `source`: who noticed it.  Raises NotFound (no such service), Misconfigured
    (no reason), StoreUnavailable.
    """
    if failures < FAILURES_MAX:
        return None
    if not reason.strip() or not source.strip():
        raise Misconfigured("a repeated failure needs a reason and a source")
    configuration, file = plane.configuration.current(), plane.configuration.freeze_file()
    declared = configuration.last_good_fleet.services.get(service)
    if declared is None:
        raise NotFound(f"no service {service!r} in the registry")
    request = ActionRequest(
        kind=Kind.FAILURE_GAP,
        target=service,
        source=Source.PLAYBOOK,
        requested_by=source,
        reason=f"{service} failed {failures} times in a row: {reason}",
        key=f"failure_gap:{plane.ids.new()}",
        group=declared.group,
        evidence=Evidence(reason=reason, facts={"failures": failures}),
    )

    def run(tx: Tx) -> str:
        tx.lock_admission(exclusive=True)
        return escalate_to_people(tx, configuration, plane.gate.texts, file, request, request.reason).approval

    return plane.store.transact("repeated_failure", run) or None
