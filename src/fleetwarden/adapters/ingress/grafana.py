"""Grafana: unified alerting (version 1, one event for each alert) and the rules from before Grafana 8.

Unified alerting has Alertmanager's shape with fields of its own.  An old rule is one alert; it has no time, and tells
neither which series it is about.  "No data" and a failing data source are not that something is down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fleetwarden.adapters.ingress import alertmanager
from fleetwarden.adapters.ingress.cleaning import clean, fingerprint, first_text, labels_of, one_line
from fleetwarden.domain.event_words import class_of, is_no_data, is_test, severity_of
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity

__all__ = ["SOURCE", "is_legacy", "is_unified", "read_legacy", "read_unified"]

SOURCE: Final = "grafana"
_OF_ALERTS = ("silenceURL", "dashboardURL", "panelURL", "valueString")
_REASON: Final = "grafana_state_reason"
_NOT_MEASURED: Final = frozenset({"nodata", "error"})
_PHASES: Final = {"alerting": Phase.FIRING, "ok": Phase.RESOLVED}


def is_unified(body: Mapping[str, Any]) -> bool:
    """Whether a group of alerts is Grafana's own."""
    if str(body.get("version")) == "1" and ("orgId" in body or "state" in body or "title" in body):
        return True
    return any(isinstance(one, Mapping) and any(key in one for key in _OF_ALERTS) for one in body["alerts"][:1])


def is_legacy(body: Mapping[str, Any]) -> bool:
    """Whether it is a rule from before unified alerting."""
    return "state" in body and ("ruleName" in body or "ruleId" in body or "ruleUrl" in body) and "alerts" not in body


def read_unified(body: Mapping[str, Any]) -> list[FleetEvent]:
    """One event for each alert that is an object.

    A rule may be set to alert where there is no data or its query fails: it keeps its own name then, and says why in an
    annotation.
    """
    return [_unmeasured(one) for one in alertmanager.read(body, SOURCE)]


def _unmeasured(event: FleetEvent) -> FleetEvent:
    reasons = {one.strip().lower() for one in event.annotations.get(_REASON, "").split(",")}
    if event.phase is not Phase.FIRING or reasons.isdisjoint(_NOT_MEASURED):
        return event
    return msgspec.structs.replace(event, phase=Phase.NOTE, class_=EventClass.NONE, status="no_data")


def _nothing_measured(body: Mapping[str, Any]) -> bool:
    """Whether an old rule alerts although no condition of it holds: so it does for no data, and for a failed query.

    What has no such field at all was not made by Grafana, and is believed.
    """
    matches = body.get("evalMatches", body)
    if not matches:
        return True
    each = matches if isinstance(matches, list) else ()
    return bool(each) and all(isinstance(one, Mapping) and one.get("metric") == "NoData" for one in each)


def read_legacy(body: Mapping[str, Any]) -> list[FleetEvent]:
    """The one event of an old rule."""
    name, message = first_text(body.get("ruleName"), body.get("title")), one_line(body.get("message"))
    state = first_text(body.get("state")).lower() or "unknown"
    labels = labels_of(body.get("tags"))
    labels["alertname"] = name
    phase = _PHASES.get(state, Phase.NOTE)
    class_ = class_of(name, message)
    if phase is Phase.FIRING and (_nothing_measured(body) or is_no_data(message)):
        phase, state = Phase.NOTE, "no_data"
    elif phase is Phase.FIRING and is_test(name, message):
        phase, state = Phase.NOTE, "test"
    if phase is Phase.NOTE:
        class_ = EventClass.NONE
    severity = severity_of(labels.get("severity"), Severity.WARNING) if phase is Phase.FIRING else Severity.INFO
    if state == "no_data":
        severity = Severity.WARNING
    return [
        FleetEvent(
            source=SOURCE,
            severity=severity,
            status={"alerting": "firing", "ok": "resolved"}.get(state, clean(state, 64)),
            phase=phase,
            subject=next((labels[key] for key in alertmanager.SUBJECTS if labels.get(key)), "unknown"),
            fingerprint=fingerprint(None, "rule", body.get("orgId"), body.get("ruleId"), name),
            class_=class_,
            labels=labels,
            summary=message or one_line(body.get("title")) or name or "alert",
            url=clean(body.get("ruleUrl")) if isinstance(body.get("ruleUrl"), str) else "",
        )
    ]
