"""Which host each service of local processes belongs to, where several planes share the fleet.

A declared host is the person's word.  Without one a service belongs to the host of the plane that first has it started:
that plane claims it in the transaction that authorises the first action, and it stays there until a host is declared.
Until it is claimed every plane takes it for its own, so that whoever leads can start it; the claim lets one through.
Nothing is moved by itself, ever: a host that is silent may still run what it was given.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["PlacedConfiguration"]


class PlacedConfiguration:
    """A configuration source in which every service of local processes has its host.  `host`: this plane's."""

    def __init__(self, source: ConfigurationSource, store: Store, *, host: str) -> None:
        self._source = source
        self._store = store
        self._host = host
        self._placed: Mapping[str, str] = {}
        self._known: tuple[Configuration, Mapping[str, str], Configuration] | None = None

    def current(self) -> Configuration:
        """See ConfigurationSource.  Reads no store: placements are those that `learn` last read."""
        declared, placed, known = self._source.current(), self._placed, self._known
        if known is None or known[0] is not declared or known[1] is not placed:
            fleet, last_good = (self._with_hosts(one, placed) for one in (declared.fleet, declared.last_good_fleet))
            resolved = msgspec.structs.replace(declared, fleet=fleet, last_good_fleet=last_good)
            known = self._known = (declared, placed, resolved)
        return known[2]

    def _with_hosts(self, fleet: Fleet, placed: Mapping[str, str]) -> Fleet:
        services = {name: self._with_host(one, placed) for name, one in fleet.services.items()}
        return msgspec.structs.replace(fleet, services=services)

    def _with_host(self, service: Service, placed: Mapping[str, str]) -> Service:
        spec = service.process
        if spec is None or spec.host:
            return service
        host = placed.get(service.name, self._host)
        return msgspec.structs.replace(service, process=msgspec.structs.replace(spec, host=host))

    def refresh(self) -> bool:
        """See ConfigurationSource; placements count as part of the snapshot.  Raises StoreUnavailable."""
        changed = self._source.refresh()
        return self.learn() or changed

    def freeze_file(self) -> str:
        return self._source.freeze_file()

    def learn(self) -> bool:
        """Read the placements; returns whether they changed.  Raises StoreUnavailable."""
        placed = self._store.read(lambda tx: tx.placements.all())
        if placed == self._placed:
            return False
        self._placed = placed
        return True

    def is_here(self, service: Service) -> bool:
        """Whether this plane's host looks after a service, as resolved: its own processes, and what has no host."""
        return service.process is None or service.process.host in ("", self._host)

    def unclaimed(self, name: str) -> bool:
        """Whether a service has neither a declared host nor, as far as is known here, a placement."""
        declared = self._source.current().last_good_fleet.services.get(name)
        spec = None if declared is None else declared.process
        return spec is not None and not spec.host and name not in self._placed

    def claim(self, tx: Tx, request: ActionRequest) -> str | None:
        """Part of the transaction that authorises a request: make the placement it rests on last, or say why not."""
        declared = self._source.current().fleet.services.get(request.target)
        host = str(request.identity.get("host", ""))
        if request.dry_run or not host or declared is None or declared.process is None or declared.process.host:
            return None
        owner = tx.placements.claim(request.target, host)
        return None if owner == host else f"{request.target} belongs to host {owner} by now"
