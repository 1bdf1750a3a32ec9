"""What the composition root has built so far, for the compositions that stand on it.

One record instead of a dozen parameters.  It holds references only: nothing is built, decided or kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetwarden.app.settings import Settings
from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.readiness import Readiness
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.signals import SignalProvider
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock, IdSource, Notifier

if TYPE_CHECKING:
    from fleetwarden.app.bootstrap import Plane

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A plane's parts.  `refusal` says why nothing here carries out a request, or None; `acting`: live substrates."""

    settings: Settings
    clock: Clock
    ids: IdSource
    store: Store
    configuration: ConfigurationSource
    sightings: Sightings
    supervision: Supervision
    readiness: Readiness
    gate: Gate
    desk: ApprovalDesk
    recovery: Recovery
    wakes: Wakes
    signals: SignalProvider
    notifier: Notifier
    refusal: Callable[[ActionRequest, Service], str | None]
    acting: frozenset[str]
    holder: str


def parts_of(plane: Plane) -> Parts:
    """The parts of a plane whose gate, desk and signals stand already."""
    return Parts(
        settings=plane.settings,
        clock=plane.clock,
        ids=plane.ids,
        store=plane.store,
        configuration=plane.configuration,
        sightings=plane.sightings,
        supervision=plane.supervision,
        readiness=plane.readiness,
        gate=plane.gate,
        desk=plane.desk,
        recovery=plane.recovery,
        wakes=plane.wakes,
        signals=plane.autoscaling.sources.provider,
        notifier=plane.notifier,
        refusal=plane.refusal,
        acting=plane.acting,
        holder=plane.holder,
    )
