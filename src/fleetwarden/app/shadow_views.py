"""Shadow reports: what the autoscaler would have asked for, next to what the controller in charge did.

Reads the kept runs in short pages, so that a long report holds nobody up, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.views import Item
from fleetwarden.controllers.shadowing import in_shadow, last_seen
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import Micros, rfc3339
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.shadow import Comparison, ShadowRun, Side, compare
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.pages import Page
from fleetwarden.ports.shadows import SHADOW_KEPT
from fleetwarden.ports.stores import Store

__all__ = ["ShadowReports"]

READ_AT_ONCE = 5_000


class ShadowReports:
    """`ticked`: when this plane's autoscaler noted its last tick, 0 if it does not tick."""

    def __init__(self, store: Store, configuration: ConfigurationSource, ticked: Callable[[], Micros]) -> None:
        self._store = store
        self._configuration = configuration
        self._ticked = ticked

    def report(self, caller: Caller, name: str, since: Micros | None = None) -> Item:
        """One service's comparison since then, by default of everything that is kept.  Raises Forbidden, NotFound."""
        require(caller, Role.VIEWER)
        service = self._configuration.current().last_good_fleet.services.get(name)
        found = self._report(name, service, since)
        if service is None and not found["runs"]:
            raise NotFound(f"no service {name!r} in the registry, and none of that name was evaluated in shadow")
        return found

    def reports(self, caller: Caller, page: Page) -> Item:
        """`{items, next}`: the services in shadow now, by name.  `page.before` is how many names to skip.

        Raises Forbidden.
        """
        require(caller, Role.VIEWER)
        services = self._configuration.current().last_good_fleet.services
        names = sorted(name for name, one in services.items() if in_shadow(one))
        first = page.before or 0
        shown = names[first : first + page.limit]
        more = first + len(shown) < len(names) and bool(shown)
        items = [self._report(name, services[name], page.since) for name in shown]
        return {"items": items, "next": first + len(shown) if more else None}

    def _report(self, name: str, service: Service | None, since: Micros | None) -> Item:
        now, marked = self._store.read(lambda tx: (tx.now(), last_seen(tx)))
        begin = max(since or 0, now - SHADOW_KEPT)
        runs = self._runs(name, begin)
        return _view(name, service, runs, compare(runs, since=begin, seen=min(now, max(marked, self._ticked()))))

    def _runs(self, name: str, since: Micros) -> list[ShadowRun]:
        runs: list[ShadowRun] = []
        while True:
            after = runs[-1].number if runs else 0
            more = self._store.read(
                lambda tx, after=after: tx.shadows.of(name, since=since, after=after, limit=READ_AT_ONCE)  # type: ignore[misc]
            )
            runs += more
            if len(more) < READ_AT_ONCE:
                return runs


def _view(name: str, service: Service | None, runs: list[ShadowRun], found: Comparison) -> Item:
    latest = runs[-1] if runs else None
    return {
        "service": name,
        "writer": _writer(service),
        "since": rfc3339(found.since),
        "until": rfc3339(found.until),
        "judged_s": round(found.judged_s, 3),
        "unjudged_s": round(found.unjudged_s, 3),
        "agreement": None if found.agreement is None else round(found.agreement, 6),
        "ours": _side(found.ours),
        "theirs": _side(found.theirs),
        "runs": found.runs,
        "latest": None
        if latest is None
        else {
            "at": rfc3339(latest.at),
            "until": rfc3339(latest.until),
            "current": latest.current,
            "desired": latest.desired,
            "raw": latest.raw,
            "code": latest.reason,
        },
    }


def _side(one: Side) -> Item:
    return {
        "replica_hours": round(one.replica_hours, 6),
        "actions": one.actions,
        "reversals": one.reversals,
        "under_provisioned_s": round(one.under_s, 3),
    }


def _writer(service: Service | None) -> str | None:
    """Who writes its count: an external controller's mode, or nobody whom we know (mode: observe)."""
    if service is None or service.scaling is None or not in_shadow(service):
        return None
    mode = service.scaling.controller_mode
    return "observe" if mode == NATIVE else mode
