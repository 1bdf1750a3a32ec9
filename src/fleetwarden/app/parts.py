"""What the composition root has built so far, for the compositions that stand on it.

One parameter instead of a dozen, and no import of the root.  Nothing is built, decided or kept here.
"""

from __future__ import annotations

from typing import Protocol

from fleetwarden.app.settings import Settings
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.loop import Loop
from fleetwarden.controllers.push import Push
from fleetwarden.controllers.readiness import Readiness
from fleetwarden.controllers.reconciler import Reconciler
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock, IdSource, Notifier

__all__ = ["Parts"]


class Parts(Protocol):
    """A plane's parts, as a plane has them.  `acting`: the substrates that really act; `provider`: of signals.

    `by_hand`: passes are run by a test, on its own thread.  The loop is there only once everything is built.
    """

    settings: Settings
    clock: Clock
    ids: IdSource
    store: Store
    configuration: ConfigurationSource
    sightings: Sightings
    readiness: Readiness
    gate: Gate
    restraint: Restraint
    wakes: Wakes
    provider: ScalingSignalProvider
    push: Push | None
    notifier: Notifier
    acting: frozenset[str]
    holder: str
    reconciler: Reconciler
    loop: Loop
    by_hand: bool

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """Why nothing here carries out a request, or None."""
