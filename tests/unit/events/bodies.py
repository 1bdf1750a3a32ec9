"""Bodies as monitoring systems send them, for tests: builders with sane defaults."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["alert", "encoded", "grafana_rule", "group", "heartbeat", "unified"]

NEVER = "0001-01-01T00:00:00Z"


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def alert(name: str = "ServiceDown", **over: Any) -> dict[str, Any]:
    labels = {"alertname": name, "service": "shop", "severity": "critical", **over.pop("labels", {})}
    fields = {
        "status": "firing",
        "labels": {key: value for key, value in labels.items() if value is not None},
        "annotations": {"summary": f"{name} of shop"},
        "startsAt": "2027-03-01T10:00:00.5Z",
        "endsAt": NEVER,
        "generatorURL": "http://prometheus.test:9090/graph?g0.expr=up",
        "fingerprint": "00aa11bb22cc33dd",
        **over,
    }
    return {key: value for key, value in fields.items() if value is not None}


def group(*alerts: dict[str, Any], **over: Any) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": '{}:{alertname="x"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "fleet",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.test:9093",
        "alerts": list(alerts),
        **over,
    }


def unified(*alerts: dict[str, Any], **over: Any) -> dict[str, Any]:
    return {**group(*alerts), "version": "1", "orgId": 1, "title": "[FIRING:1]", "state": "alerting", **over}


def grafana_rule(state: str = "alerting", **over: Any) -> dict[str, Any]:
    return {
        "dashboardId": 1,
        "evalMatches": [{"value": 100, "metric": "High value", "tags": None}],
        "message": "the shop is down",
        "orgId": 1,
        "panelId": 2,
        "ruleId": 17,
        "ruleName": "Shop",
        "ruleUrl": "http://grafana.test/d/x",
        "state": state,
        "tags": {},
        "title": "[Alerting] Shop",
        **over,
    }


def heartbeat(status: Any = 0, *, monitor: Any = None, **over: Any) -> dict[str, Any]:
    return {
        "heartbeat": {
            "monitorID": 4,
            "status": status,
            "time": "2027-03-01 10:00:00.250",
            "msg": "connect ECONNREFUSED",
            "important": True,
            **over,
        },
        "monitor": {"id": 4, "name": "shop front", "url": "https://shop.test", "type": "http", "tags": []}
        if monitor is None
        else monitor,
        "msg": "[shop front] [Down] connect ECONNREFUSED",
    }
