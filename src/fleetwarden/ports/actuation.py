"""Changing the fleet.  Only `controllers.executor` may import this module.

An actuator is called only after commit 1 (the outbox record is `running`), at most once per key.  It never decides
whether it should act, never retries, never touches another target, and reports honestly when it does not know.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from fleetwarden.domain.actions import ActionRequest, Outcome
from fleetwarden.domain.fleet import ObservedService, Service

__all__ = ["ActuationCall", "FleetActuator"]


class ActuationCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call: the request under its key, the service as declared, and what was seen right before commit 1.

    `deadline` is on the clock port's monotonic scale.  The actuator begins no new effect at or after it.
    """

    key: str
    request: ActionRequest
    service: Service
    observed: ObservedService | None
    deadline: float


class FleetActuator(Protocol):
    """Carries out governed actions on one substrate.

    `lateness_s`: how long after the deadline an effect may still land, or None if no bound can be given (then only a
    person settles negatives).  `acknowledged_is_final`: an acknowledged call cannot be delivered again (in process, or
    one connection without retries).  `simulates`: it changes nothing, and its outcomes say dry_run.
    Calls for different targets come from several threads at once; two calls for one target never overlap.
    """

    substrate: str
    kinds: frozenset[str]
    simulates: bool
    lateness_s: float | None
    acknowledged_is_final: bool

    def deadline_s(self, request: ActionRequest, service: Service) -> float:
        """Seconds that this call may take, bounded (at most 600)."""

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """Why this can never be carried out here (kind not served, wrong host, self target), or None.  Pure look-up."""

    def actuate(self, call: ActuationCall) -> Outcome:
        """Carry it out, or refuse.

        Returns ok, a confirmed refusal or failure (nothing more will happen), or unknown_outcome.  Raises NotCalled if
        nothing was begun.  Any other exception is taken as an unknown outcome.
        """
