"""`down --services`: the services of this plane are stopped as governed actions, like everything else.

The reconciler is paused first, so that nothing is started again meanwhile.  Policy decides each stop; what it queues or
denies is reported and left running, and the plane stays up so that a person can still answer.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.gate import Admission, Answer, Gate
from fleetwarden.controllers.reconciler import Reconciler, request_for
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.domain.actions import Kind, Source
from fleetwarden.domain.convergence import Need
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock, IdSource

__all__ = ["Stopping"]


PAUSE_S = 60.0  # longer than between two questions of `down --services`; then the fleet is kept as declared again


class Stopping:
    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        gate: Gate,
        reconciler: Reconciler,
        here: Callable[[Service], bool] = lambda _: True,
    ) -> None:
        """`here`: whether a service is this plane's to stop; what other hosts run is theirs."""
        self._here = here
        self._clock = clock
        self._until = 0.0
        self._ids = ids
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._gate = gate
        self._reconciler = reconciler

    def pausing(self) -> bool:
        """Whether services are being stopped, so that nothing may be started.  Lapses if nobody asks again."""
        return self._clock.monotonic() < self._until

    def end_plane(self, caller: Caller, *, reason: str) -> None:
        """Write down who ends this plane; the entry point then ends it.  Services keep running.  Raises Forbidden."""
        require(caller, Role.ADMIN)
        self._store.transact(
            "end_plane",
            lambda tx: tx.journal.write(
                topic="shutdown",
                actor=caller.person,
                severity="warning",
                summary=f"{caller.person} ended the plane" + (f": {reason}" if reason else ""),
            ),
        )

    def stop_services(self, caller: Caller, *, acting: frozenset[str], reason: str) -> dict[str, JsonValue]:
        """Ask for a stop of every service that runs; returns `{asked: [{service, answer, reason, …}], running}`.

        Call again to see what is left: a service that has stopped is not asked about again.
        """
        require(caller, Role.ADMIN)
        self._until = self._clock.monotonic() + PAUSE_S
        self._reconciler.paused = True
        services = [
            one
            for one in self._configuration.current().last_good_fleet.services.values()
            if one.process and self._here(one)
        ]
        look = self._sightings.look(services)
        requests = []
        running = []
        for service in services:
            seen = look.seen.get(service.name)
            if seen is None or seen.existing == 0 or service.mode is not Mode.LIVE or "process" not in acting:
                continue
            running.append(service.name)
            need = Need(kind=Kind.STOP, params={}, direction="down", reason=reason)
            request = request_for(
                need,
                service,
                seen,
                key=self._ids.new(),
                source=Source.OPERATOR,
                by=caller.person,
                acting=acting,
            )
            requests.append(msgspec.structs.replace(request, reason=reason))
        answers = self._gate.admit(requests, fence=None)
        blocked = [one for one in answers if one.answer not in (Answer.PREPARED, Answer.BUSY, Answer.STALE)]
        if blocked:  # somebody has to answer first: keep the fleet as declared meanwhile
            self._until, self._reconciler.paused = 0.0, False
        return {
            "running": sorted(running),
            "asked": [_told(one) for one in answers],
            "blocked": [one.request.target for one in blocked],
        }


def _told(one: Admission) -> dict[str, JsonValue]:
    return {
        "service": one.request.target,
        "answer": one.answer.value,
        "reason": one.reason,
        "decision_id": None if one.decision is None else one.decision.id,
        "approval_id": None if one.approval is None else one.approval.id,
        "action_id": None if one.record is None else one.record.id,
    }
