"""What the store keeps of what monitoring systems tell: events, and where each alert stands.

Putting an event is all that happens when one arrives: it is kept, correlated with its alert, and one step of work is
enqueued for it, in one transaction.  A delivery of something that is kept already changes nothing but the count of its
deliveries.  Events are evidence: nothing here acts on one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.events import AlertState, FleetEvent, StoredEvent
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.ports.pages import Page

__all__ = ["LOG_ENTRIES_MAX", "TRIAGE", "Events", "Receipt"]

TRIAGE: Final = "fleet_event_triage"  # the kind of the work; its payload is {"event": seq}, its key "event:E-<seq>"
LOG_ENTRIES_MAX: Final = 200


class Receipt(Record):
    """What became of one event.  `duplicate`: it is a delivery of the event `seq`, and no work was enqueued."""

    seq: int
    duplicate: bool
    work_seq: int | None
    event: FleetEvent


class Events(Protocol):
    def put(self, events: Sequence[FleetEvent]) -> Sequence[Receipt]:
        """Keep them all, in this order, and enqueue a `TRIAGE` step for each that is new, with its service as target.

        The receipts are in the order of the events.  Raises Refused if one does not fit; none is kept then.
        """

    def get(self, seq: int) -> StoredEvent:
        """Raises NotFound.  In a write transaction on PostgreSQL the row is locked."""

    def list(self, page: Page) -> Sequence[StoredEvent]:
        """Newest first.  `target` filters by service, `kind` by source, `state` by phase."""

    def append_log(self, seq: int, entry: Mapping[str, JsonValue], *, status: str | None = None) -> StoredEvent:
        """Add a step's outcome to the event's remediation log, dated `tx.now()` as `at`, and set its status if given.

        Raises NotFound; Refused past `LOG_ENTRIES_MAX` entries or the size of a document.
        """

    def set_status(self, seq: int, status: str) -> StoredEvent:
        """Set the remediation status.  Raises NotFound."""

    def down_events(self, service: str, since: Micros, *, limit: int = 100) -> Sequence[StoredEvent]:
        """Outages of a service that were stored after `since` (exclusive), newest first: events of class down that
        began one.  Reminders, late ones and doubled deliveries are none."""

    def outages(self, service: str, since: Micros) -> int:
        """How many outages those events tell of: what was stored at once is one, since a sender that groups its alerts
        tells of one outage by several, one for each instance.  The newest 200 events are counted."""

    def alerts(self, services: Sequence[str]) -> Sequence[AlertState]:
        """Where the alerts of class down stand of these services, firing and resolved ones."""

    def standing(self, alerts: Sequence[str]) -> Mapping[str, AlertState]:
        """Where these alerts stand, of whatever class; one that nothing was heard of is left out."""

    def firing(self, origin: str) -> Sequence[AlertState]:
        """The alerts that last, as a configured source said."""

    def flaps(self, services: Sequence[str], since: Micros) -> Mapping[str, int]:
        """How often outages of these services began again after they had ended, after `since` (exclusive)."""

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many events are kept, by source and severity."""

    def number(self) -> int:
        """How many events are kept."""

    def prune(self, before: Micros, *, limit: int = 1_000) -> int:
        """Delete events that were last delivered before, and alerts that nothing was heard of since; at most `limit`
        of each.  Returns how many events."""

    def oldest(self) -> Micros | None:
        """When the event that was delivered the longest ago was delivered; None if none is kept."""
