"""Events of monitoring systems: read any body that they send into the one shape that fleetwarden keeps.

Pure: no store, no clock, no fleet.  Which service an event is about is decided where the fleet is known.
"""

from __future__ import annotations

from fleetwarden.adapters.ingress.reading import UnreadableEvents, read_events
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity, StoredEvent

__all__ = ["EventClass", "FleetEvent", "Phase", "Severity", "StoredEvent", "UnreadableEvents", "normalise"]


def normalise(body: bytes, *, content_type: str = "application/json", source: str | None = None) -> list[FleetEvent]:
    """The events of a body that Alertmanager, Uptime Kuma, Grafana, Portainer or anything else sent as JSON.

    `source` is what the caller calls the sender; it counts only where the content does not tell.  Raises
    UnreadableEvents (nothing can be read from it) and Refused (`too_large`).
    """
    return read_events(body, content_type=content_type, source=source)
