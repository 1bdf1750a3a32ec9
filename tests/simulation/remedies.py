"""What begins with an alert on one simulated plane, put together as the product does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fleetwarden.controllers.admission import Admission
from fleetwarden.controllers.event_placing import EventPlacing
from fleetwarden.controllers.playbook_steps import PlaybookSteps
from fleetwarden.controllers.triage import TRIAGE, Triage
from fleetwarden.controllers.worker import Handler
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.stores import Tx

if TYPE_CHECKING:
    from tests.simulation.plane import SimPlane

__all__ = ["admission_of", "playbooks_of"]

WAITING_MAX = 1_000


def admission_of(plane: SimPlane) -> Admission:
    """Its intake of events: after the commit the steps are due."""

    def taken(tx: Tx, receipts: Sequence[Receipt]) -> None:
        if receipts:
            tx.after_commit(plane.wakes.waker("worker"))

    placing = EventPlacing(plane.history.files)
    return Admission(plane.store, placing.placed, taken, waiting_max=WAITING_MAX)


def playbooks_of(plane: SimPlane) -> Mapping[str, Handler]:
    """The shipped playbooks, over the plane's own store, gate and sight."""
    files = plane.history.files
    steps = PlaybookSteps(
        plane.store,
        files,
        plane.sightings,
        plane.gate,
        plane.restraint,
        plane._refusal,
        acting=frozenset(plane.history.substrates),
        unready=plane.readiness.of,
    )
    triage = Triage(plane.store, files, plane.gate, steps, entries=lambda: (), written=dict)
    return {TRIAGE: triage.handle}
