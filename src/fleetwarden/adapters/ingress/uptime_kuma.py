"""Uptime Kuma 1.x and 2.x: one heartbeat of one monitor.

Its times are UTC without saying so.  The time of a heartbeat is that of the message: a reminder has a new one.  The
test button, and notices of certificates, have neither heartbeat nor monitor: they are for people, and are read as what
they are, a text.  Nothing of a monitor but its names and addresses is kept, since a monitor may carry passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleetwarden.adapters.ingress.cleaning import clean, fingerprint, first_text, labels_of, one_line, told_time
from fleetwarden.domain.event_words import pressed
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity

__all__ = ["SOURCE", "is_heartbeat", "is_notice", "monitor_fingerprint", "read"]

SOURCE: Final = "uptime-kuma"
_STATES: Final = {0: "down", 1: "up", 2: "pending", 3: "maintenance"}
_PHASES: Final = {"down": Phase.FIRING, "up": Phase.RESOLVED}
_KEPT: Final = {
    "id": "monitor_id",
    "url": "url",
    "hostname": "hostname",
    "port": "port",
    "type": "type",
    "docker_container": "container",
    "pathName": "path",
}
_ADDRESS: Final = ("url", "hostname", "port")


def is_heartbeat(body: Mapping[str, Any]) -> bool:
    """Whether it is a heartbeat."""
    return isinstance(body.get("heartbeat"), Mapping) and "monitor" in body


def is_notice(body: Mapping[str, Any]) -> bool:
    """Whether it is the test button's message, or a notice of a certificate: both parts are named, and empty."""
    return "monitor" in body and body.get("heartbeat", 0) is None


def read(body: Mapping[str, Any]) -> list[FleetEvent]:
    """The one event of a heartbeat."""
    beat = body["heartbeat"]
    monitor = body["monitor"] if isinstance(body["monitor"], Mapping) else {}
    code = beat.get("status")
    status = _STATES.get(code, "unknown") if type(code) is int else "unknown"
    phase = _PHASES.get(status, Phase.NOTE)
    name = first_text(monitor.get("name"), monitor.get("pathName"))
    summary = one_line(body.get("msg")) or one_line(beat.get("msg")) or f"monitor {status}"
    at = told_time(beat.get("time"))
    class_ = EventClass.NONE
    if phase is not Phase.NOTE:
        class_ = EventClass.PRESSURE if pressed(name, one_line(beat.get("msg"))) else EventClass.DOWN
    number = monitor.get("id", beat.get("monitorID"))
    return [
        FleetEvent(
            source=SOURCE,
            severity=Severity.CRITICAL if phase is Phase.FIRING else Severity.INFO,
            status=status,
            phase=phase,
            subject=name or first_text(monitor.get("url"), monitor.get("hostname")) or "unknown",
            fingerprint=monitor_fingerprint(monitor, name, number),
            class_=class_,
            labels=_labels(monitor, name),
            summary=summary,
            starts_at=None if phase is Phase.RESOLVED else at,
            ends_at=at if phase is Phase.RESOLVED else None,
            repeating=True,
        )
    ]


def monitor_fingerprint(monitor: Mapping[str, Any], name: str, number: Any = None) -> str:
    """What names a monitor: its name and what it looks at, which is all that every way to learn of it tells.

    Monitors of different groups may have the same name.  Without a name its number is it.
    """
    if not name:
        return fingerprint(None, "monitor", number)
    return fingerprint(None, "monitor", name, *(_said(monitor, key) for key in _ADDRESS))


def _said(monitor: Mapping[str, Any], key: str) -> str:
    """What a monitor says under a key, "" for nothing: its form begins with an address without a host."""
    value = monitor.get(key)
    told = isinstance(value, str | int) and not isinstance(value, bool) and value not in ("https://", "http://")
    return clean(value) if told else ""


def _labels(monitor: Mapping[str, Any], name: str) -> dict[str, str]:
    found = {"monitor": name} if name else {}
    found |= {label: said for key, label in _KEPT.items() if (said := _said(monitor, key))}
    tags = monitor.get("tags")
    for tag in tags if isinstance(tags, list) else ():
        if isinstance(tag, Mapping) and isinstance(tag.get("name"), str):
            found.update({f"tag_{key}": value for key, value in labels_of({tag["name"]: tag.get("value", "")}).items()})
    return found
