"""What this layer needs of a running plane: operations, and the way to learn who asks.

A Protocol and not the class that `app.bootstrap` builds, so that importing the routes does not import everything that
a plane is made of.  It must never grow a store: whatever a route wants to know is an operation with a role.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fastapi import Request

from fleetwarden.app.administration import Administration
from fleetwarden.app.approving import Approving
from fleetwarden.app.diagnosis import Diagnosis
from fleetwarden.app.event_views import EventOperations
from fleetwarden.app.explaining import Explaining
from fleetwarden.app.fleet_views import FleetViews
from fleetwarden.app.history import History
from fleetwarden.app.identity import Caller
from fleetwarden.app.intent_views import Lineages
from fleetwarden.app.ledger_export import LedgerExport
from fleetwarden.app.listing import Lists
from fleetwarden.app.message_views import Messages
from fleetwarden.app.metrics import Metrics
from fleetwarden.app.planning import Planning
from fleetwarden.app.proposing import Proposing
from fleetwarden.app.remedies import Remedies
from fleetwarden.app.replica_logs import ReplicaLogs
from fleetwarden.app.shadow_views import ShadowReports
from fleetwarden.app.signal_views import Signals
from fleetwarden.app.stopping import Stopping
from fleetwarden.app.storage import EpochOperations
from fleetwarden.app.version_views import VersionViews
from fleetwarden.app.wishes import Wishes
from fleetwarden.ports.system import Clock

__all__ = ["BODY_LIMIT_BYTES", "ServedPlane", "Serving", "plane_of", "serving"]

BODY_LIMIT_BYTES = 256 * 1024
BODY_TIMEOUT_S = 30.0


class ServedPlane(Protocol):
    """A running plane as the routes see it."""

    clock: Clock
    acting: frozenset[str]
    lists: Lists
    ledger: LedgerExport
    administration: Administration
    approving: Approving
    proposing: Proposing
    fleet: FleetViews
    explaining: Explaining
    versions: VersionViews
    logs: ReplicaLogs
    stopping: Stopping
    wishes: Wishes
    history: History
    planning: Planning
    epochs: EpochOperations
    lineages: Lineages
    signals: Signals
    shadows: ShadowReports
    events: EventOperations
    metrics: Metrics
    diagnosis: Diagnosis
    remedies: Remedies
    messages: Messages

    def authenticate(self, secret: str) -> Caller:
        """The caller behind a token's secret.  Raises Unauthenticated, StoreUnavailable."""

    def recognise(self, digest: str) -> Caller:
        """The caller behind a token's digest.  Raises Unauthenticated, StoreUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One served plane and the limits under which it is served.

    `on_shutdown` asks the process to end and returns at once; `body_limit_bytes` bounds every request body, and
    `body_timeout_s` how long one may take to arrive.
    """

    plane: ServedPlane
    on_shutdown: Callable[[], None]
    body_limit_bytes: int = BODY_LIMIT_BYTES
    body_timeout_s: float = BODY_TIMEOUT_S


def serving(request: Request) -> Serving:
    """What this application serves."""
    found = request.app.state.serving
    assert isinstance(found, Serving)
    return found


def plane_of(request: Request) -> ServedPlane:
    """The plane that this application serves."""
    return serving(request).plane
