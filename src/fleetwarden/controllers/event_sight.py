"""What events say of services that nothing looks at: down while an alert of class down lasts, up after its end.

An alert counts as evidence as of its last delivery, and only as long as other evidence would.  Any direct observation
outranks it, whatever it says: an alert that fired twenty minutes ago must not outvote a probe.  Where an observer is
there and does not answer, events do not take its place.  Alerts are told apart by their fingerprints: one that ended
does not end another.  Events know no counts and no versions, so what they say is never evidence of those; `Look.told`
keeps it apart for that reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fleetwarden.domain.events import AlertState
from fleetwarden.domain.fleet import ObservedService, Service, ServiceStatus
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.playbooks import FLAP_WINDOW
from fleetwarden.ports.stores import Tx

__all__ = ["SOURCE", "told_by_events"]

SOURCE: Final = "events"


def told_by_events(tx: Tx, services: Sequence[Service], since: Micros) -> Mapping[str, ObservedService]:
    """What alerts that were delivered at or after `since` say of these services; one without any is left out."""
    named = {one.name: one for one in services}
    alerts: dict[str, list[AlertState]] = {}
    for alert in tx.events.alerts(list(named)):
        if alert.seen_at >= since:
            alerts.setdefault(alert.service, []).append(alert)
    if not alerts:
        return {}
    flaps = tx.events.flaps(list(alerts), tx.now() - FLAP_WINDOW)
    return {name: _observed(named[name], found, flaps.get(name, 0)) for name, found in alerts.items()}


def _observed(service: Service, alerts: Sequence[AlertState], flaps: int) -> ObservedService:
    firing = [one for one in alerts if one.firing]
    newest = max(firing or alerts, key=lambda one: (one.seen_at, one.event_seq))
    told = f"{len(firing)} alert{'s' if len(firing) != 1 else ''} of it firing" if firing else "its alerts have ended"
    if flaps:
        told += f"; it began again {flaps} time{'s' if flaps != 1 else ''} within {FLAP_WINDOW // SECOND // 60} min"
    return ObservedService(
        name=service.name,
        observed_at=newest.seen_at,
        source=SOURCE,
        status=ServiceStatus.DOWN if firing else ServiceStatus.UP,
        ready=0 if firing else service.replicas,
        total=service.replicas,  # nobody counted: as declared, so that it asks for no other count
        version=service.version,
        detail=told,
        since=min(one.changed_at for one in firing) if firing else newest.changed_at,
    )
