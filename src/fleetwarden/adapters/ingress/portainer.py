"""Portainer's alerting, which sends Alertmanager's shape: told by its own names, or by the source that it came by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleetwarden.adapters.ingress import alertmanager
from fleetwarden.domain.events import FleetEvent

__all__ = ["SOURCE", "is_portainer", "read"]

SOURCE: Final = "portainer"
_SAYING = ("externalURL", "receiver", "generatorURL")


def is_portainer(body: Mapping[str, Any]) -> bool:
    """Whether a group of alerts says by its addresses, receiver or labels that Portainer sent it."""
    if any(SOURCE in str(body.get(key, ""))[:512].lower() for key in _SAYING):
        return True
    for one in body["alerts"][:1]:
        labels = one.get("labels") if isinstance(one, Mapping) else None
        if isinstance(labels, Mapping) and any(_says(key, value) for key, value in labels.items()):
            return True
    return False


def _says(key: Any, value: Any) -> bool:
    if str(key).lower().startswith(SOURCE):
        return True
    return str(key) in ("source", "origin", "generator", "sender") and str(value)[:64].lower() == SOURCE


def read(body: Mapping[str, Any]) -> list[FleetEvent]:
    """One event for each alert that is an object."""
    return alertmanager.read(body, SOURCE)
