"""What a monitoring system told us, in one shape whatever it came from: an event, and the alert that it is about.

An event is a statement about the past by somebody else.  It is evidence and never an order: nothing here decides what
is done about it.  Severity, phase and class are stored with the event, so that whoever acts later need not guess again.
An alert is what firing and resolved events of one fingerprint have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros, show_id

__all__ = ["AlertState", "EventClass", "FleetEvent", "Phase", "Severity", "StoredEvent"]


class Severity(StrEnum):
    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Phase(StrEnum):
    """What an event says of its alert.  `note`: neither that it began nor that it ended (a test, pending, no data)."""

    FIRING = "firing"
    RESOLVED = "resolved"
    NOTE = "note"


class EventClass(StrEnum):
    """What it is about.  `none`: nothing that says that a service does not work."""

    PRESSURE = "pressure"
    FLAPPING = "flapping"
    DOWN = "down"
    NONE = "none"


class FleetEvent(Record):
    """One alert of one notification, secrets taken out.

    `status` is the sender's own word in lower case, `phase` what it means.  `severity` of what is over is info.
    `subject` is what the sender calls the thing; `service` the service of the fleet that it is about, None if it is
    about none that is known.  `origin` is the configured source that it came by ("" for none).  `starts_at` is when the
    alert began, None where the sender does not say; `ends_at` when it ended, for what is resolved.  `repeating`: the
    sender's start is the time of the message, so that a reminder cannot be told from a new outage by it.
    `truncated` counts the alerts that the sender left out of the same notification.
    """

    source: str
    severity: Severity
    status: str
    phase: Phase
    subject: str
    fingerprint: str
    class_: EventClass = msgspec.field(default=EventClass.NONE, name="class")
    service: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    summary: str = ""
    origin: str = ""
    url: str = ""
    starts_at: Micros | None = None
    ends_at: Micros | None = None
    repeating: bool = False
    truncated: int = 0

    @property
    def alert(self) -> str:
        """Which alert it is about: one fingerprint of one kind of sender, whichever way it came."""
        return f"{self.source}:{self.fingerprint}"

    @property
    def resolved(self) -> bool:
        return self.phase is Phase.RESOLVED


class StoredEvent(Record):
    """An event as it is kept.

    `at` is when it was stored; `seen_at` when it was last delivered, `repeats` how often after the first time.
    `repeat_of`: an earlier event of the same outage, which had not ended.  `flap`: its alert began again after it had
    ended.  `late`: it came after a newer statement about its alert, and changed nothing.  `ended_at` and `ended_by`:
    when, and by which event, the outage ended that this one reported; `closes`: the event that this one ended.
    """

    seq: int
    at: Micros
    event: FleetEvent
    seen_at: Micros
    repeats: int = 0
    repeat_of: int | None = None
    flap: bool = False
    late: bool = False
    closes: int | None = None
    ended_at: Micros | None = None
    ended_by: int | None = None
    remediation_status: str = ""
    remediation_log: tuple[Mapping[str, JsonValue], ...] = ()

    @property
    def id(self) -> str:
        return show_id("E", self.seq)

    @property
    def open(self) -> bool:
        """Whether it reports something that began and, as far as is known, lasts."""
        return self.event.phase is Phase.FIRING and not self.late and self.ended_at is None


class AlertState(Record):
    """Where one alert stands: what the newest statement about it says.

    `changed_at` is when that is said to have happened, by the sender's clock but never later than it was stored;
    `starts_at` names the outage (None: the sender names none); `event_seq` the event that said it.
    """

    alert: str
    service: str
    firing: bool
    class_: EventClass
    severity: Severity
    starts_at: Micros | None
    changed_at: Micros
    seen_at: Micros
    event_seq: int
    origin: str = ""  # the configured source that said so
