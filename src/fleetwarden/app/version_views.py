"""Versions of one service for people: what can be deployed, what runs, and what ran since when.

It reads the files, the last look and the history, and changes nothing; whether a version is any good is not said here.
"""

from __future__ import annotations

from fleetwarden.app.fleet_views import FleetViews
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.views import Item
from fleetwarden.controllers.rollouts import rolled_back, why_not_again
from fleetwarden.domain import versions
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import rfc3339, show_id
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store
from fleetwarden.ports.versions import RanVersion

__all__ = ["VersionViews"]

HISTORY_MAX = 100


class VersionViews:
    """Looks up one service's versions."""

    def __init__(self, store: Store, configuration: ConfigurationSource, fleet: FleetViews) -> None:
        self._store = store
        self._configuration = configuration
        self._fleet = fleet

    def of(self, caller: Caller, name: str) -> Item:
        """`{service, declared, running, known, note, history}`, history newest first.  Raises Forbidden, NotFound."""
        require(caller, Role.VIEWER)
        service = self._configuration.current().last_good_fleet.services.get(name)
        if service is None:
            raise NotFound(f"no service {name!r} in the registry")
        now, ran, last = self._store.read(
            lambda tx: (tx.now(), tx.versions.of_service(name, HISTORY_MAX), rolled_back(tx).get(name))
        )
        seen = self._fleet.seen(name, now)
        older = None if seen is None else versions.older_definition(service, seen)
        held = "" if last is None else why_not_again(last, service.version)
        return {
            "service": name,
            "declared": service.version or None,
            "running": [] if seen is None else list(versions.running(seen)),
            "known": _known(service),
            "note": held or older,
            "history": [_ran(one) for one in ran],
        }


def _known(service: Service) -> list[Item]:
    spec = service.process
    if spec is not None and spec.versions:
        return [{"version": name, "irreversible": one.irreversible} for name, one in spec.versions.items()]
    return [{"version": service.version, "irreversible": False}] if service.version else []


def _ran(one: RanVersion) -> Item:
    return {
        "at": rfc3339(one.at),
        "version": one.version,
        "before": one.before or None,
        "kind": one.kind,
        "complete": one.complete,
        "action_id": show_id("X", one.action_seq),
    }
