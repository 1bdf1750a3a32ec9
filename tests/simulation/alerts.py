"""Monitoring systems, in every sixth history: what they send, how often, in which order, and what they hear of it.

Their chances are their own, so that the other histories stay what they were.  A sender that hears nothing sends again,
as Alertmanager does; what it said and what it was told are events for the auditor, which hears of alerts in no other
way.  Beginnings and ends come doubled, shuffled, late, from several senders, and about things that are no service.
"""

from __future__ import annotations

from random import Random
from threading import Event as Signal
from typing import TYPE_CHECKING

import msgspec

from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity
from fleetwarden.domain.identifiers import SECOND

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.plane import SimPlane

__all__ = ["Alerts"]

CHANCE = 0.45  # of what happens in the world, how much is about alerts
ACTS = (*("fire",) * 6, *("resolve",) * 2, *("again",) * 3, "shuffled", "old", "stranger", "note", *("burst",) * 2)
SENDERS = ("alertmanager", "alertmanager", "uptime-kuma")  # of which the second kind names no beginnings
SEVERITIES = (*(Severity.CRITICAL,) * 4, *(Severity.ERROR,) * 2, Severity.WARNING)
CLASSES = (*(EventClass.DOWN,) * 7, EventClass.PRESSURE, EventClass.FLAPPING, EventClass.NONE)
SHUFFLED_MAX = 5
PATIENCE = 10 * SECOND  # of a sender that hears nothing


class Alerts:
    """`busy`: whether anybody sends anything in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = Random(history.plan.seed ^ 0xA1E2)
        self.busy = history.plan.alerts
        self.chance = CHANCE
        self.acts: tuple[str, ...] = ACTS
        self._said: list[FleetEvent] = []
        self._firing: dict[str, FleetEvent] = {}
        self._unheard: dict[int, tuple[int, list[FleetEvent]]] = {}  # by batch: since when nobody said that it is kept
        self._batches = 0

    def act(self) -> bool:
        """Perhaps a sender sends something; returns whether."""
        rng, history = self._rng, self._history
        if not self.busy or rng.random() >= self.chance or not history.planes:
            return False
        what = rng.choice(self.acts)
        batch = self._batch(what)
        history.journal.line(f"alerts: {what}, {len(batch)} in one body")
        plane = rng.choice(history.planes)
        if rng.random() < 0.2:
            self.send_again(plane)
        if batch:
            self._send(plane, batch)
            if rng.random() < 0.15:  # a sender that is impatient, or a proxy that tries twice
                self._send(rng.choice(history.planes), batch)
        return True

    def _batch(self, what: str) -> list[FleetEvent]:
        rng, said = self._rng, self._said
        names = [one.name for one in self._history.plan.services]
        if what == "fire":
            return [self._begun(rng.choice(names))]
        if what == "burst":
            batch = [self._begun(name) for name in names]
            rng.shuffle(batch)
            return batch
        if what == "stranger":
            return [self._begun("printer", falls=False)]
        if what == "resolve" and self._firing:
            return [self._ended(rng.choice(list(self._firing)))]
        if what == "old" and said:
            one = rng.choice(said)
            return (
                [msgspec.structs.replace(one, starts_at=one.starts_at - 3600 * SECOND)]
                if one.starts_at is not None
                else []
            )
        if what == "note":
            return [
                msgspec.structs.replace(self._begun(rng.choice(names), falls=False), phase=Phase.NOTE, status="test")
            ]
        if what == "again" and said:
            return [rng.choice(said)]
        if what == "shuffled" and said:
            return [rng.choice(said) for _ in range(rng.randint(2, SHUFFLED_MAX))]
        return []

    def _begun(self, name: str, *, falls: bool = True) -> FleetEvent:
        """An alert about this service begins, mostly because the service did fall."""
        rng, history = self._rng, self._history
        source, class_ = rng.choice(SENDERS), rng.choice(CLASSES)
        if falls and class_ is EventClass.DOWN and rng.random() < 0.7:
            self.fall(name)
        now = history.clock.now()
        one = FleetEvent(
            source=source,
            severity=rng.choice(SEVERITIES),
            status="firing",
            phase=Phase.FIRING,
            subject=name,
            fingerprint=f"{name}-{rng.randint(1, 2)}",
            class_=class_,
            labels={"service": name},
            summary="it does not answer",
            starts_at=None if source == "uptime-kuma" else now - rng.choice((0, 0, 5, 30, 90)) * SECOND,
        )
        if falls:
            self._firing[one.alert] = one
        self._said.append(one)
        return one

    def fall(self, name: str) -> None:
        history = self._history
        [substrate] = [one.substrate for one in history.plan.services if one.name == name]
        history.journal.line(f"world: crash all {name}, and an alert says so")
        for index in list(history.substrates[substrate].instances(name)):
            history.substrates[substrate].crash(name, index)

    def _ended(self, alert: str) -> FleetEvent:
        begun = self._firing.pop(alert)
        now = self._history.clock.now()
        one = msgspec.structs.replace(
            begun, phase=Phase.RESOLVED, status="resolved", severity=Severity.INFO, ends_at=now
        )
        self._said.append(one)
        return one

    # ------------------------------------------------------------------------------------------- sending
    def send_again(self, plane: SimPlane) -> None:
        """Senders try again what nobody said was kept."""
        due = [number for number, (at, _) in self._unheard.items() if self._history.clock.elapsed - at > PATIENCE]
        for number in due:
            self._send(plane, self._unheard.pop(number)[1])

    def _send(self, plane: SimPlane, batch: list[FleetEvent]) -> None:
        self._batches += 1
        number = self._batches
        self._unheard[number] = (self._history.clock.elapsed, batch)
        self._history.people.spawn(plane, "alert", lambda: self._deliver(plane, number, batch))

    def _deliver(self, plane: SimPlane, number: int, batch: list[FleetEvent]) -> None:
        """One request: it ends with its plane, and whoever waits behind another's commit waits as a request does."""
        history = self._history
        told = [(one.alert, one.phase.value, one.starts_at, _meant(history, one)) for one in batch]
        history.journal.event("alerts_sent", batch=number, told=told)
        try:
            ticket, leads = plane.admission.submit(batch[0].source, batch)
            if leads:
                plane.admission.lead()
            while not ticket.done.done():
                history.clock.wait(Signal(), 0.5)
            receipts = ticket.done.result()
        except FleetError as error:
            history.journal.line(f"alerts {number} are not kept: {error}")
            return
        self._unheard.pop(number, None)
        history.journal.event("alerts_kept", batch=number, receipts=[(one.seq, one.duplicate) for one in receipts])

    def left(self) -> list[str]:
        """What senders have not been told is kept."""
        return [f"alerts {number} are not acknowledged" for number in self._unheard]


def _meant(history: History, event: FleetEvent) -> str:
    return event.subject if any(one.name == event.subject for one in history.plan.services) else ""
