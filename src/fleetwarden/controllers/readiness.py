"""May anything be acted upon now?  The one question that every acting controller asks, in the scope of one service.

Only healthy evidence lets a service be converged, a grant be drained or a call be begun; what does not concern the
service does not hold it.  What is held here is never ended for that: an authorisation waits (and lapses on its own), a
step of work comes again.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.worker import Handler, Step
from fleetwarden.domain.health import trouble
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import WorkItem

__all__ = ["Readiness"]

RETRY_S = 5.0


class Readiness:
    """Asks supervision, for services by their substrate."""

    def __init__(self, supervision: Supervision, configuration: ConfigurationSource) -> None:
        self._supervision = supervision
        self._configuration = configuration

    def why_not(self, substrate: str) -> str | None:
        """Why nothing may be done on that substrate now, or None."""
        return trouble(self._supervision.envelopes().of(substrate)) or None

    def of(self, target: str) -> str | None:
        """Why nothing may be done with that service now, or None; an unknown one rests on the whole fleet's health."""
        return self.for_all()(target)

    def for_all(self) -> Callable[[str], str | None]:
        """The same question for many services, answered from one moment."""
        envelopes = self._supervision.envelopes()
        services = self._configuration.current().last_good_fleet.services

        def answer(target: str) -> str | None:
            service = services.get(target)
            return trouble(envelopes.whole if service is None else envelopes.of(service.substrate)) or None

        return answer

    def gated(self, handler: Handler) -> Handler:
        """The same step, put off while its target's scope is not healthy."""

        def run(item: WorkItem) -> Step:
            why = self.of(item.target)
            return handler(item) if why is None else Step.later(RETRY_S, why)

        return run
