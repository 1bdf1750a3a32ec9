"""Any JSON object: read by a mapping that the source declares, else by the names that such bodies usually have.

A mapping names, for each part of an event, where it stands: keys joined by dots (`data.host.name`, `items.0.id`).
What a body does not say is not made up: its severity is info, its status unknown, and then it is a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleetwarden.adapters.ingress.cleaning import (
    clean,
    fingerprint,
    first_text,
    json_text,
    labels_of,
    names_alert,
    one_line,
    told_time,
    without_secrets,
)
from fleetwarden.domain.event_words import class_of, is_no_data, is_notice, is_test, phase_of, severity_of
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity

__all__ = ["FIELDS", "SOURCE", "read"]

SOURCE: Final = "generic"
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "subject": ("subject", "service", "monitor", "resource", "host", "hostname", "name"),
    "severity": ("severity", "level", "priority"),
    "status": ("status", "state"),
    "summary": ("summary", "message", "msg", "title", "text", "description"),
    "fingerprint": ("fingerprint", "dedup_key", "dedupKey", "incident_key", "alert_id"),
    "starts_at": ("starts_at", "startsAt", "started_at", "timestamp", "time"),
    "ends_at": ("ends_at", "endsAt", "ended_at", "resolved_at"),
    "url": ("url", "link"),
    "labels": ("labels", "tags"),
}
_CLASS_OF_STATUS = frozenset({"down", "offline", "unreachable", "unhealthy"})


def read(
    body: Mapping[str, Any], *, source: str = SOURCE, mapping: Mapping[str, str] | None = None
) -> list[FleetEvent]:
    """The one event of a body."""

    def of(field: str) -> Any:
        if mapping and field in mapping:
            return _at(body, mapping[field])
        return next((body[key] for key in FIELDS[field] if body.get(key) not in (None, "")), None)

    status = (first_text(of("status")).lower() or "unknown")[:64]
    phase = phase_of(status)
    labels = labels_of(of("labels"))
    for name in ("service", "host", "hostname", "container", "job", "instance", "monitor", "alertname"):
        if name not in labels and isinstance(body.get(name), str) and body[name]:
            labels[name] = clean(body[name])
    summary = one_line(of("summary")) or clean(json_text(without_secrets(body)), 500)
    subject = first_text(of("subject"), labels.get("service")) or "unknown"
    if phase is Phase.FIRING and (is_test(summary) or is_no_data(summary, status)):
        phase = Phase.NOTE
    class_ = EventClass.NONE if phase is Phase.NOTE else class_of(labels.get("alertname", ""), summary)
    if class_ is EventClass.NONE and status in _CLASS_OF_STATUS and not is_notice(summary):
        class_ = EventClass.DOWN
    severity = severity_of(of("severity"), Severity.INFO)
    starts_at, ends_at = told_time(of("starts_at")), told_time(of("ends_at"))
    told = names_alert(of("labels"), labels)
    parts = ("generic", source, subject, told) if phase is not Phase.NOTE else ("note", source, without_secrets(body))
    return [
        FleetEvent(
            source=source,
            severity=Severity.INFO if phase is Phase.RESOLVED else severity,
            status=status,
            phase=phase,
            subject=subject,
            fingerprint=fingerprint(of("fingerprint"), *parts),
            class_=class_,
            labels=labels,
            summary=summary,
            url=clean(of("url")) if isinstance(of("url"), str) else "",
            starts_at=None if phase is Phase.RESOLVED else starts_at,
            ends_at=(ends_at or starts_at) if phase is Phase.RESOLVED else None,
            repeating=True,
        )
    ]


def _at(body: Any, path: str) -> Any:
    """What stands at a path; None where it leads nowhere."""
    for key in path.split("."):
        if isinstance(body, Mapping):
            body = body.get(key)
        elif isinstance(body, list) and key.isascii() and key.isdigit() and int(key) < len(body):
            body = body[int(key)]
        else:
            return None
    return body
