"""What the replicas of one service wrote last, read as it stands, scrubbed and bounded as evidence is.

It changes nothing and keeps nothing.  Of a service on another host nothing can be read here, and that is said.
"""

from __future__ import annotations

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.neighbours import Neighbours
from fleetwarden.app.views import Item
from fleetwarden.controllers.capturing import Capturing
from fleetwarden.domain.errors import NotFound, Refused
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.ports.configuration import ConfigurationSource

__all__ = ["ReplicaLogs"]


class ReplicaLogs:
    """Reads output by service.  `shared`: knows which services are of this host, None where all are."""

    def __init__(self, configuration: ConfigurationSource, capturing: Capturing, shared: Neighbours | None) -> None:
        self._configuration = configuration
        self._capturing = capturing
        self._shared = shared

    def of(self, caller: Caller, name: str) -> Item:
        """`{service, instances: [{id, status, pid, version, started_at, ended, lines, cut}], problem?}`.

        Raises Forbidden, NotFound, Refused (another host's, or nothing that writes), Retryable (it cannot be read now).
        """
        require(caller, Role.VIEWER)
        service = self._configuration.current().last_good_fleet.services.get(name)
        if service is None:
            raise NotFound(f"no service {name!r} in the registry")
        if self._shared is not None and not self._shared.configuration.is_here(service):
            host = "" if service.process is None else service.process.host
            raise Refused(
                f"{name} runs on host {host}, and what it writes stays there",
                code="other_host",
                hint="ask the plane of that host",
            )
        body = self._capturing.last_lines(service)
        told = [one for one in body.get("instances", ()) if isinstance(one, dict)]
        instances = [{**one, "started_at": rfc3339(one.get("started_at"))} for one in told]
        return {"problem": None, **body, "service": name, "instances": instances}
