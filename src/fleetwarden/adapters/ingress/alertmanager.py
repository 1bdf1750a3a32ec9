"""Prometheus' Alertmanager, webhook version 4 (0.2x to 0.34), and what has its shape: one event for each alert.

Only an alert's own labels count, never those of its group.  A firing alert may carry an end, which is when it would
end by itself: it has not ended.  Older releases give no fingerprint; then the labels are it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleetwarden.adapters.ingress.cleaning import (
    SUBJECTS,
    clean,
    fingerprint,
    first_text,
    is_mapping,
    labels_of,
    names_alert,
    one_line,
    told_time,
)
from fleetwarden.domain.event_words import class_of, is_no_data, is_test, severity_of
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity

__all__ = ["SOURCE", "SUBJECTS", "event_of", "is_envelope", "read"]

SOURCE: Final = "alertmanager"
_NOTHING: Mapping[str, Any] = {}


def is_envelope(body: Mapping[str, Any]) -> bool:
    """Whether it has the shape of a group of alerts."""
    return isinstance(body.get("alerts"), list) and (
        "version" in body or "groupKey" in body or "receiver" in body or "groupLabels" in body or "status" in body
    )


def read(body: Mapping[str, Any], source: str = SOURCE) -> list[FleetEvent]:
    """One event for each alert that is an object."""
    left_out = body.get("truncatedAlerts")
    truncated = left_out if isinstance(left_out, int) and not isinstance(left_out, bool) and left_out > 0 else 0
    return [event_of(one, body, source, truncated=min(truncated, 2**31)) for one in body["alerts"] if is_mapping(one)]


def event_of(alert: Mapping[str, Any], body: Mapping[str, Any], source: str, *, truncated: int = 0) -> FleetEvent:
    """One alert of a group."""
    labels, notes = labels_of(alert.get("labels")), labels_of(alert.get("annotations"))
    status = first_text(alert.get("status"), body.get("status")).lower() or "firing"
    resolved = status == "resolved"
    name = labels.get("alertname", "")
    given_notes = alert.get("annotations")
    raw = given_notes if is_mapping(given_notes) else _NOTHING
    summary = one_line(raw.get("summary")) or one_line(raw.get("description")) or one_line(raw.get("message"))
    phase, class_ = Phase.RESOLVED if resolved else Phase.FIRING, class_of(name, summary, notes.get("description", ""))
    if phase is Phase.FIRING and (status != "firing" or is_test(name, summary) or is_no_data(name)):
        phase, class_ = Phase.NOTE, EventClass.NONE
        status = "no_data" if is_no_data(name) else "test" if is_test(name, summary) else status
    elif is_no_data(name, summary):
        class_ = EventClass.NONE
    given = labels.get("severity") or labels.get("priority") or labels.get("level")
    severity = Severity.INFO if resolved else severity_of(given, Severity.WARNING)
    return FleetEvent(
        source=source,
        severity=severity,
        status=clean(status, 64),
        phase=phase,
        subject=next((labels[key] for key in SUBJECTS if labels.get(key)), "unknown"),
        fingerprint=fingerprint(alert.get("fingerprint"), names_alert(alert.get("labels"), labels)),
        class_=class_,
        labels=labels,
        annotations=notes,
        summary=summary or clean(name, 500) or "alert",
        url=clean(alert.get("generatorURL")) if isinstance(alert.get("generatorURL"), str) else "",
        starts_at=told_time(alert.get("startsAt")),
        ends_at=told_time(alert.get("endsAt")) if resolved else None,
        truncated=truncated,
    )
