"""Healing of gaps: a source that can be asked is asked, and what it says is put beside what is known.

Senders lose things: Uptime Kuma never tries again, and Alertmanager leaves alerts out of large groups.  Only
differences become events, by the way that every event goes.  A source that cannot be asked changes nothing.  What a
source has not known for a while has ended, but only what that very source said: after its own restart a source knows
nothing at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

import msgspec
import structlog

from fleetwarden.controllers.admission import Admission
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import FleetError, NotFound
from fleetwarden.domain.event_sources import EventSource
from fleetwarden.domain.events import AlertState, FleetEvent, Phase, Severity
from fleetwarden.ports.alert_sources import AlertSources
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock

__all__ = ["CADENCE", "EventHealing"]

log = structlog.get_logger(__name__)
CADENCE: Final = "event_healing"
ABSENT_S: Final = 300.0


class EventHealing:
    """Asks sources, each at its own pace."""

    def __init__(self, clock: Clock, store: Store, sources: AlertSources, admission: Admission) -> None:
        self._clock = clock
        self._store = store
        self._sources = sources
        self._admission = admission
        self._lock = Lock()
        self._due: dict[str, float] = {}
        self._absent: dict[str, dict[str, float]] = {}  # by source: alerts that it does not know, and since when
        self.failures: dict[str, str] = {}  # by source: why it could not be asked the last time

    def hurry(self, name: str) -> None:
        """A source said that it left something out: ask it on the next pass."""
        with self._lock:
            self._due[name] = 0.0

    def run(self, _: LeaseFence | None = None) -> int:
        """Ask what is due; returns how many events that made."""
        healed = 0
        for source in self._sources.known():
            assert source.poll is not None
            now = self._clock.monotonic()
            with self._lock:
                if now < self._due.get(source.name, 0.0):
                    continue
                self._due[source.name] = now + source.poll.every_s
            try:
                healed += self._ask(source)
                self.failures.pop(source.name, None)
            except FleetError as error:
                if source.name not in self.failures:
                    log.warning("source of events cannot be asked", source=source.name, reason=str(error))
                self.failures[source.name] = str(error)
        return healed

    def _ask(self, source: EventSource) -> int:
        standing = self._sources.ask(source)
        wanted = [one.alert for one in standing.events]
        known, firing = self._store.read(lambda tx: (tx.events.standing(wanted), tx.events.firing(source.name)))
        events = [one for event in standing.events if (one := _difference(event, known.get(event.alert))) is not None]
        told = {one.alert for one in events}
        now, before = self._clock.monotonic(), self._absent.get(source.name, {})
        gone = [one for one in firing if one.alert not in standing.present and one.alert not in told]
        self._absent[source.name] = {one.alert: before.get(one.alert, now) for one in gone}
        ended = [one for one in gone if now - self._absent[source.name][one.alert] >= ABSENT_S]
        events += self._store.read(lambda tx: _ends(tx, ended))
        if not events:
            return 0
        return sum(not one.duplicate for one in self._admission.take(f"asked {source.name}", events))


def _difference(event: FleetEvent, known: AlertState | None) -> FleetEvent | None:
    """What has to be said, or None.  Of what is known to last its last delivery is now."""
    if event.phase is Phase.RESOLVED:
        return event if known is not None and known.firing else None
    if known is None or not known.firing:
        return event
    return event if event.starts_at is not None else msgspec.structs.replace(event, starts_at=known.starts_at)


def _ends(tx: Tx, alerts: Sequence[AlertState]) -> list[FleetEvent]:
    """That these have ended, in the words of their beginnings."""
    found = []
    for one in alerts:
        try:
            begun = tx.events.get(one.event_seq).event
        except NotFound:  # it was pruned
            continue
        over = {"phase": Phase.RESOLVED, "status": "resolved", "severity": Severity.INFO, "ends_at": None}
        starts_at = None if begun.repeating else begun.starts_at
        found.append(msgspec.structs.replace(begun, **over, starts_at=starts_at))
    return found
