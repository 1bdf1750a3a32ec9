"""Putting together what begins with an event: who takes it, who keeps it, who takes the step that follows, and for how
long it is kept.  Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.adapters.files.events import EventsFile
from fleetwarden.adapters.ingress.polling import PolledSources
from fleetwarden.app.event_views import EventOperations
from fleetwarden.app.parts import Parts
from fleetwarden.controllers.admission import Admission
from fleetwarden.controllers.event_healing import CADENCE as HEALING
from fleetwarden.controllers.event_healing import EventHealing
from fleetwarden.controllers.event_keeping import CADENCE as KEEPING
from fleetwarden.controllers.event_keeping import EventKeeping
from fleetwarden.controllers.event_placing import EventPlacing
from fleetwarden.controllers.loop import Subscription
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.stores import Tx

__all__ = ["EventIntake"]

WORKER = "worker"
DAY_S = 86_400


class EventIntake:
    """The events of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        settings = parts.settings
        self.file = EventsFile(settings.config_dir)
        placing = EventPlacing(parts.configuration)
        self.admission = Admission(
            parts.store, placing.placed, self._taken, waiting_max=settings.fleet_events_waiting_max
        )
        self.operations = EventOperations(
            self.admission,
            self.file.current,
            parts.clock,
            settings.config_dir,
            body_bytes_max=settings.fleet_events_body_bytes_max,
        )
        self.healing = EventHealing(
            parts.clock, parts.store, PolledSources(self.file.current, settings.config_dir), self.admission
        )
        self.keeping = EventKeeping(
            parts.store,
            kept=settings.fleet_events_kept_days * DAY_S * SECOND,
            events_max=settings.fleet_events_max,
        )

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""
        poll = self.parts.settings.fleet_config_poll_s
        return [
            Subscription(name=HEALING, interval_s=5.0, run=self.healing.run, vital=False),
            Subscription(name=KEEPING, interval_s=60.0, run=self.keeping.run, vital=False),
            Subscription(
                name="event_sources", interval_s=poll, run=lambda _: self.file.refresh(), leased=False, vital=False
            ),
        ]

    def _taken(self, tx: Tx, receipts: Sequence[Receipt]) -> None:
        """After the commit the steps are due, and a service that is said to be down is looked at."""
        if not receipts:
            return
        tx.after_commit(self.parts.wakes.waker(WORKER))
        for name in {one.event.origin for one in receipts if one.event.truncated and one.event.origin}:
            self.healing.hurry(name)
            tx.after_commit(self.parts.wakes.waker(HEALING))
        named = {one.event.service for one in receipts if one.event.service is not None and not one.event.resolved}
        if named:
            tx.after_commit(lambda: self._look(sorted(named)))

    def _look(self, services: Sequence[str]) -> None:
        push = self.parts.push
        if push is None or not self.parts.settings.fleet_reconciler:
            return
        for name in services:
            push.told(name)
