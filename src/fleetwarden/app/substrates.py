"""Substrates of one plane: what it can see and what it may change, built from the settings.

A substrate that was chosen and cannot work on this machine falls back to a dry run, loudly: the reason is shown by
`status` for as long as the plane runs, and nothing claims that anything was done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from fleetwarden.adapters.deadlines import DeadlineEvidence
from fleetwarden.adapters.substrates.process.substrate import ProcessSubstrate
from fleetwarden.app.settings import Settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.ports.actuation import FleetActuator
from fleetwarden.ports.evidence import EvidenceSource
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.system import Clock

__all__ = ["Substrates", "build", "evidence_of"]

log = structlog.get_logger(__name__)
PROCESS = "process"


class Substrates:
    """What was built.  `actuators` holds only substrates that may act; `fallbacks` says why others do not; `unmanaged`
    counts what still runs of services that are not among the given names."""

    def __init__(
        self,
        observers: tuple[FleetObserver, ...],
        actuators: dict[str, FleetActuator],
        fallbacks: tuple[str, ...],
        unmanaged: Callable[[Collection[str]], Mapping[str, int]],
        close: Callable[[], None],
        evidence: tuple[EvidenceSource, ...] = (),
    ) -> None:
        self.observers = observers
        self.actuators = actuators
        self.fallbacks = fallbacks
        self.unmanaged = unmanaged
        self.close = close
        self.evidence = evidence


def build(settings: Settings, clock: Clock, fleet_id: str, on_exit: Callable[[str], None]) -> Substrates:
    """Build every substrate of this machine.  `on_exit`: called with a service's name when an instance of it ends."""
    acting = frozenset(settings.fleet_actuator) - {"dryrun"}
    try:
        process = ProcessSubstrate(
            clock, fleet=fleet_id, host=settings.fleet_host, data=settings.fleet_data_dir, on_exit=on_exit
        )
    except Misconfigured as error:
        log.error("no local processes on this machine", reason=str(error))
        told = (f"local processes cannot be managed here, so nothing acts on them (dry run): {error}",)
        return Substrates((), {}, told if PROCESS in acting else (), lambda _: {}, lambda: None)
    actuators: dict[str, FleetActuator] = {PROCESS: process.actuator} if PROCESS in acting else {}
    return Substrates((process.observer,), actuators, (), process.running_besides, process.close, (process.evidence,))


def evidence_of(parts: Iterable[object], clock: Clock | None) -> dict[str, EvidenceSource]:
    """Those of the parts that can give evidence, by substrate.  `clock`: each is bounded in time by it."""
    found = [one for one in parts if isinstance(one, EvidenceSource)]
    return {one.substrate: one if clock is None else DeadlineEvidence(clock, one) for one in found}
