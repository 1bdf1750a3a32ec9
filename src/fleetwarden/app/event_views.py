"""Events for people and programs: taking what senders send, and showing what was taken.

Whoever sends needs the role `ingest`, or a signature by one of the keys that `events.yml` names for the source.  A body
is taken whole or refused whole, and a refusal never repeats what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from fleetwarden.adapters.ingress.reading import UnreadableEvents, read_events
from fleetwarden.adapters.ingress.signatures import signature_problem
from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, Unauthenticated, require
from fleetwarden.controllers.admission import Admission, Ticket
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.event_sources import EventsDocument, EventSource
from fleetwarden.domain.events import FleetEvent, StoredEvent
from fleetwarden.domain.identifiers import JsonValue, rfc3339, show_id
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.system import Clock

__all__ = ["Delivery", "EventOperations", "event_view", "taken_view"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One body as it came.  `name`: by which source its address says; `hint`: what the query calls it.

    `headers` have lower-case names.
    """

    body: bytes
    content_type: str = "application/json"
    name: str = ""
    hint: str = ""
    headers: Mapping[str, str] = {}


class EventOperations:
    """What a running plane offers.  `folder`: where key files lie."""

    def __init__(
        self,
        admission: Admission,
        document: Callable[[], EventsDocument],
        clock: Clock,
        folder: Path,
        *,
        body_bytes_max: int,
    ) -> None:
        self.admission = admission
        self._document = document
        self._clock = clock
        self._folder = folder
        self.body_bytes_max = body_bytes_max

    def signs(self, name: str) -> bool:
        """Whether that source vouches for its bodies by a signature and needs no token."""
        source = self._source(name)
        return source is not None and bool(source.hmac_files)

    def submit(
        self, caller: Callable[[], Caller], delivery: Delivery, told: Callable[[], None] | None = None
    ) -> tuple[Ticket, bool]:
        """Read a body and put it into the queue; see `Admission.submit`, also for `told`.

        `caller` is asked where no signature vouches.  Raises Unauthenticated, Forbidden, UnreadableEvents, Refused
        (`too_large`), Retryable (`busy`), StoreUnavailable.
        """
        source = self._source(delivery.name)
        if source is not None and source.hmac_files:
            self._check(source, delivery)
            sender = f"source {source.name}"
        else:
            asks = caller()
            require(asks, Role.INGEST)
            sender = f"token {asks.token} {delivery.name}"
        try:
            events = self._read(source, delivery)
        except FleetError as error:
            self.admission.refused[error.code] += 1
            raise
        return self.admission.submit(sender, events, told)

    def take(self, caller: Caller, delivery: Delivery) -> dict[str, JsonValue]:
        """The same, waiting for the commit; answers as `taken_view`."""
        ticket, leads = self.submit(lambda: caller, delivery)
        if leads:
            self.admission.lead()
        return taken_view(ticket.done.result())

    def _source(self, name: str) -> EventSource | None:
        return self._document().sources.get(name.lower()) if name else None

    def _check(self, source: EventSource, delivery: Delivery) -> None:
        problem = signature_problem(source, self._folder, delivery.headers, delivery.body, self._clock.now())
        if problem is not None:
            self.admission.refused[Unauthenticated.code] += 1
            raise Unauthenticated(
                f"the body is not vouched for: {problem}",
                hint=f"sign it with a key of {source.name} (events.yml) into {source.signature_header}",
            )

    def _read(self, source: EventSource | None, delivery: Delivery) -> list[FleetEvent]:
        if source is None:
            events = read_events(
                delivery.body, content_type=delivery.content_type, source=delivery.name or delivery.hint
            )
            origin = ""
        else:
            generic = source.kind == "generic"
            events = read_events(
                delivery.body,
                content_type=delivery.content_type,
                source=source.name if generic else source.kind,
                mapping=source.mapping,
            )
            origin = source.name
        if not events:
            raise UnreadableEvents("the notification has no alerts", hint="there is nothing to keep")
        return [msgspec.structs.replace(one, origin=origin) for one in events] if origin else events


def taken_view(receipts: Sequence[Receipt]) -> dict[str, JsonValue]:
    """The answer to a sender.  `accepted` are new, `duplicates` were known; both are kept."""
    return {
        "accepted": sum(not one.duplicate for one in receipts),
        "duplicates": sum(one.duplicate for one in receipts),
        "events": [
            {
                "event_id": show_id("E", one.seq),
                "work_id": None if one.work_seq is None else show_id("W", one.work_seq),
                "source": one.event.source,
                "severity": one.event.severity.value,
                "subject": one.event.subject,
                "service": one.event.service,
            }
            for one in receipts
        ],
    }


def event_view(one: StoredEvent) -> views.Item:
    """One event, whole."""
    event = one.event
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "kind": event.source,
        "target": event.service,
        "source": event.source,
        "origin": event.origin or None,
        "severity": event.severity.value,
        "status": event.status,
        "state": event.phase.value,
        "class": event.class_.value,
        "subject": event.subject,
        "service": event.service,
        "fingerprint": event.fingerprint,
        "summary": event.summary,
        "labels": dict(event.labels),
        "annotations": dict(event.annotations),
        "url": event.url or None,
        "starts_at": rfc3339(event.starts_at),
        "ends_at": rfc3339(event.ends_at),
        "open": one.open,
        "ended_at": rfc3339(one.ended_at),
        "ended_by": _id(one.ended_by),
        "closes": _id(one.closes),
        "repeat_of": _id(one.repeat_of),
        "repeats": one.repeats,
        "seen_at": rfc3339(one.seen_at),
        "flap": one.flap,
        "late": one.late,
        "truncated": event.truncated,
        "remediation_status": one.remediation_status or None,
        "remediation_log": [dict(entry) for entry in one.remediation_log],
    }


def _id(seq: int | None) -> str | None:
    return None if seq is None else show_id("E", seq)
