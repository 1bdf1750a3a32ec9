"""Watching for storms: after each look, whether so much is sick that controllers had better stop repairing.

What is open stands in the store, so that every plane's gate reads it and a plane that starts again keeps it; who was up
and when it fell is this plane's own memory, so that a fleet that was down before is no storm.  It never decides a
request: policy does, by what is open.  Opening pages once; closing says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Lock

import msgspec

from fleetwarden.controllers.sightings import Look
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.domain.storm import (
    FLEET,
    Breaker,
    Memory,
    Sickness,
    StormLimits,
    Storms,
    after_clear,
    group_scope,
    sickness,
    step,
)
from fleetwarden.ports.stores import Store, Tx

__all__ = ["FACT", "StormWatch", "cleared", "known_storms", "read_storms", "scope_words", "severity_in"]

FACT = "storms"
INCIDENT = "storm"  # folds the notices of a storm into one message
NAMES_TOLD = 5
_CALM = Storms()


def read_storms(tx: Tx) -> Storms:
    """What is open now.  Raises msgspec.ValidationError if what is stored cannot be read."""
    return Storms.read(tx.facts.get(FACT))


class StormWatch:
    """`limits`: from how many sick services on it is a storm.  Looks may come from several threads."""

    def __init__(self, store: Store, *, limits: StormLimits) -> None:
        self._store = store
        self._limits = limits
        self._memory = Memory()
        self._lock = Lock()

    def run(self, fleet: Fleet, look: Look, fence: LeaseFence) -> Storms:
        """Take in a look at some or all of the fleet.  Raises Fenced, StoreUnavailable."""
        services = fleet.services
        with self._lock:
            looked = [services[name] for name in look.seen if name in services]
            well = self._memory.look(looked, look.seen, look.at)
            self._memory.keep(services.keys())
            fell = dict(self._memory.fell)
        before, after = self._store.read(lambda tx: self._next(tx, services, fell, well))
        if after == before:
            return after

        def move(tx: Tx) -> Storms:
            tx.lock_admission(exclusive=True)
            tx.leases.check(fence)
            now, then = self._next(tx, services, fell, well)
            if then != now:
                tx.facts.put(FACT, then.document())
                _tell(tx, now, then)
            return then

        return self._store.transact("storms", move)

    def _next(
        self, tx: Tx, services: Mapping[str, Service], fell: Mapping[str, Micros], well: set[str]
    ) -> tuple[Storms, Storms]:
        """What is stored, and what it is after this look."""
        storms = known_storms(tx)
        found = _found(tx, services, fell, storms)
        return storms, step(storms, found, self._limits, tx.now(), recovered=well)


def known_storms(tx: Tx) -> Storms:
    """As `read_storms`, for people and for the next look; what cannot be read counts as calm there."""
    try:
        return read_storms(tx)
    except msgspec.ValidationError:
        return _CALM


def _found(tx: Tx, services: Mapping[str, Service], fell: Mapping[str, Micros], storms: Storms) -> dict[str, Sickness]:
    flying = {
        one.request.target: one.request.kind
        for one in tx.outbox.in_state(*OPEN_RECORDS)
        if not one.request.dry_run and one.request.target in services
    }
    return sickness(services, fell, flying, storms, tx.now())


def cleared(tx: Tx, services: Mapping[str, Service], *, by: str, reason: str) -> Storms:
    """Close every breaker, by a person; part of the caller's transaction.

    Who is sick now is excused until it was up again.
    """
    tx.lock_admission(exclusive=True)
    storms = known_storms(tx)
    after = after_clear(storms, _found(tx, services, {}, storms), tx.now())
    tx.facts.put(FACT, after.document())
    open_now = ", ".join(scope_words(scope) for scope in storms.open) or "none was open"
    tx.journal.write(
        topic="notice",
        actor=by,
        severity="warning",
        summary=f"{by} closed the storm breaker ({open_now})" + (f": {reason}" if reason else ""),
        detail={"storm": sorted(storms.open)},
    )
    return after


def severity_in(tx: Tx, severity: str, group: str) -> str:
    """How loudly to say that a service of this group does not get well: in a storm a page went out already, so that
    what would be another one is an error."""
    return "error" if severity == "critical" and known_storms(tx).for_group(group) is not None else severity


def scope_words(scope: str) -> str:
    """A breaker's scope as people say it."""
    return "the fleet" if scope == FLEET else scope.replace(":", " ", 1)


def _tell(tx: Tx, before: Storms, after: Storms) -> None:
    """One page for what opened, unless the whole fleet's breaker was open already; a line for what closed."""
    opened = {scope: one for scope, one in after.open.items() if scope not in before.open}
    if opened and FLEET not in before.open:
        told = "; ".join(_words(scope, one) for scope, one in opened.items())
        tx.journal.write(
            topic="notice",
            actor="storm breaker",
            severity="critical",
            summary=f"storm: {told}. What controllers ask is denied until it is calm for 5 minutes, or: "
            "fleetwarden storm clear --reason …",
            detail={"incident": INCIDENT, "storm": sorted(opened), **_group(opened)},
        )
    if closed := [scope for scope in before.open if scope not in after.open]:
        tx.journal.write(
            topic="notice",
            actor="storm breaker",
            severity="info",
            summary=f"the storm is over ({', '.join(map(scope_words, closed))}): controllers repair again",
            detail={"incident": INCIDENT, "storm": closed, **_group(closed)},
        )


def _group(scopes: Collection[str]) -> dict[str, JsonValue]:
    """Whom it is routed to where it is about one group alone."""
    only = next(iter(scopes)) if len(scopes) == 1 else FLEET
    return {} if only == FLEET else {"group": only.removeprefix(group_scope(""))}


def _words(scope: str, one: Breaker) -> str:
    names = ", ".join(one.names[:NAMES_TOLD]) + (f" and {one.sick - NAMES_TOLD} more" if one.sick > NAMES_TOLD else "")
    return f"{one.sick} of {one.total} services of {scope_words(scope)} are sick ({names}), from {one.threshold} on"
