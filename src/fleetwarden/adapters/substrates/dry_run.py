"""The actuator that is used unless somebody chose another: it changes nothing and says what it would have done.

A dry run is an actuator of its own and not a flag inside the real ones, so that no forgotten branch can act.  It holds
no connection to any substrate at all.  Its outcomes always say `dry_run`, and their sentences always say "would".
"""

from __future__ import annotations

from fleetwarden.domain.actions import ACTUATED_KINDS, ActionRequest, Kind, Outcome
from fleetwarden.domain.errors import NotCalled
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.ports.system import Clock

__all__ = ["DryRunActuator"]


class DryRunActuator:
    """Simulates every kind of action on every substrate."""

    substrate = "dryrun"
    kinds: frozenset[str] = frozenset(ACTUATED_KINDS)
    simulates = True
    lateness_s: float | None = 0.0
    acknowledged_is_final = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def deadline_s(self, request: ActionRequest, service: Service) -> float:
        """Always 5: nothing is waited for."""
        del request, service
        return 5.0

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """Only for a kind that changes nothing or that the product does not know."""
        del service
        if request.kind in self.kinds:
            return None
        return f"unsupported_kind: a dry run can simulate {', '.join(sorted(self.kinds))}, not {request.kind!r}"

    def actuate(self, call: ActuationCall) -> Outcome:
        """Say what would be done.  Raises NotCalled at or after the deadline, as a real actuator does."""
        refused = self.refusal(call.request, call.service)
        if refused is not None:
            return Outcome(ok=False, dry_run=True, code="unsupported_kind", detail=refused)
        if self._clock.monotonic() >= call.deadline:
            raise NotCalled(f"the deadline of {call.request.kind} {call.service.name} has passed")
        return Outcome(ok=True, dry_run=True, detail=_would(call.request, call.service, call.observed))


def _would(request: ActionRequest, service: Service, observed: ObservedService | None) -> str:
    name, params = service.name, request.params
    seen = "" if observed is None else f" (now {observed.ready} of {observed.total} ready)"
    match request.kind:
        case Kind.RESTART:
            one = f"#{params['replica']}" if "replica" in params else ""
            return f"would restart {name}{one}{seen}"
        case Kind.SCALE:
            before = "" if observed is None else f" from {observed.total}"
            return f"would scale {name}{before} to {params.get('replicas')} replicas"
        case Kind.START:
            return f"would start {name} with {params.get('replicas', service.replicas)} replicas{seen}"
        case Kind.STOP:
            return f"would stop {name}{seen}"
        case _:  # deploy, rollback: a new version
            to = params.get("version") or params.get("image") or "its earlier version"
            return f"would {request.kind.partition('_')[0]} {name} to {to}{seen}"
