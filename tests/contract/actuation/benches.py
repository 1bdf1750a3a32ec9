"""One bench for each actuator: a small fleet of real processes that the suite acts on and looks at."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fleetwarden.adapters.deadlines import DeadlineActuator
from fleetwarden.adapters.substrates.dry_run import DryRunActuator
from fleetwarden.domain.actions import ActionRequest, Outcome, Source
from fleetwarden.domain.convergence import identity
from fleetwarden.domain.fleet import ObservedService, Service, VersionSpec
from fleetwarden.ports.actuation import ActuationCall, FleetActuator
from tests.unit.process.yard import Yard

__all__ = ["BENCHES", "Bench"]


class Bench:
    """An actuator, services that it can act on, and a look at them that does not go through it."""

    def __init__(self, folder: Path, actuator: Callable[[Yard], FleetActuator]) -> None:
        self.yard = Yard(folder)
        self.actuator = actuator(self.yard)

    def service(self, name: str = "web", **fields: Any) -> Service:
        fields = {"version": "1.0", "versions": {"1.0": VersionSpec(), "1.1": VersionSpec()}, **fields}
        return self.yard.service(name, stop_grace_s=1.0, **fields)

    def running(self, name: str = "web", replicas: int = 2) -> Service:
        """A service that runs already, started without the actuator under test where that one only simulates."""
        service = self.service(name, replicas=replicas)
        self.yard.start(service, key=f"before-{name}")
        return service

    def see(self, service: Service) -> ObservedService:
        return self.yard.see(service)

    def call(self, kind: str, service: Service, *, key: str = "", left_s: float = 60.0, **params: Any) -> ActuationCall:
        request = ActionRequest(
            kind=kind,
            target=service.name,
            params=params,
            source=Source.OPERATOR,
            requested_by="test",
            key=key or uuid.uuid4().hex[:16],
            substrate=service.substrate,
            identity=identity(service),
            dry_run=self.actuator.simulates,
        )
        deadline = self.yard.clock.monotonic() + left_s
        return ActuationCall(key=request.key, request=request, service=service, observed=None, deadline=deadline)

    def act(self, kind: str, service: Service, **options: Any) -> Outcome:
        return self.actuator.actuate(self.call(kind, service, **options))

    def close(self) -> None:
        self.yard.close()


# Whoever adds an actuator adds it here; every test of the suite is then asked of it.
BENCHES: Mapping[str, Callable[[Yard], FleetActuator]] = {
    "dry run": lambda yard: DryRunActuator(yard.clock),
    "process": lambda yard: yard.substrate.actuator,
    "process, bounded": lambda yard: DeadlineActuator(yard.clock, yard.substrate.actuator),
}
