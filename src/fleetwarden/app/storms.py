"""The storm breaker as people meet it: what is open, and closing it by hand.

Every change is one transaction with a notice that says who and why.  It never opens a breaker: looks do.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.app import views
from fleetwarden.app.freezing import REASON_MAX
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.offline import evidence_age_s
from fleetwarden.app.settings import Settings
from fleetwarden.controllers.condition import Condition
from fleetwarden.controllers.storm_watch import cleared, known_storms, scope_words
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import JsonValue, rfc3339
from fleetwarden.domain.storm import StormLimits, Storms
from fleetwarden.ports.stores import Store

__all__ = ["StormDesk", "condition_of", "storm_warnings"]


def condition_of(settings: Settings, store: Store) -> Condition:
    """What watches the fleet's condition, by these settings."""
    limits = StormLimits(least=settings.fleet_storm_min, percent=settings.fleet_storm_percent)
    return Condition(store, limits=limits, max_age_s=evidence_age_s(settings))


class StormDesk:
    """`fleet`: what is declared now."""

    def __init__(self, store: Store, fleet: Callable[[], Fleet]) -> None:
        self._store = store
        self._fleet = fleet

    def status(self, caller: Caller) -> dict[str, JsonValue]:
        """`{open: [{scope, since, sick, total, threshold, names, calm_since}], cleared_at}`."""
        require(caller, Role.VIEWER)
        return storm_view(self._store.read(known_storms))

    def clear(self, caller: Caller, *, reason: str) -> dict[str, JsonValue]:
        """Close every open breaker.  Who is sick now does not count again before it was up.

        Raises Forbidden, Misconfigured (no reason, or one that is too long).
        """
        require(caller, Role.OPERATOR)
        if not reason.strip():
            raise Misconfigured("closing the breaker needs a reason", hint="say what was wrong, and what was done")
        if len(reason) > REASON_MAX:
            raise Misconfigured(f"a reason of {len(reason)} characters is too long", hint=f"at most {REASON_MAX}")
        services = self._fleet().services
        done = self._store.transact("storm_clear", lambda tx: cleared(tx, services, by=caller.person, reason=reason))
        return storm_view(done)


def storm_view(storms: Storms) -> dict[str, JsonValue]:
    """What is open, as JSON."""
    opened: list[views.Item] = [
        {
            "scope": scope or "fleet",
            "since": rfc3339(one.since),
            "sick": one.sick,
            "total": one.total,
            "threshold": one.threshold,
            "names": list(one.names),
            "calm_since": rfc3339(one.calm_since),
        }
        for scope, one in sorted(storms.open.items())
    ]
    return {"open": opened, "cleared_at": rfc3339(storms.cleared_at)}


def storm_warnings(storms: Storms) -> list[str]:
    """A line of `status` for each open breaker, with what closes it."""
    return [
        f"storm since {rfc3339(one.since)}: {one.sick} of {one.total} services of {scope_words(scope)} are sick, so "
        "what controllers ask is denied; it ends by itself after 5 calm minutes, or: fleetwarden storm clear --reason …"
        for scope, one in sorted(storms.open.items())
    ]
