"""How many services of a group are well, for groups that say how many must be (`min_healthy`).

A pass writes down who is up; the gate reads that with what is in flight, in its own transaction, on any plane.
What nobody has looked at lately, what is unknown and what an action is under way with count as not healthy: an action
that would leave a group with too few waits for a person.  Nothing here asks for, decides or begins an action.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleetwarden.controllers.sightings import Look
from fleetwarden.domain.actions import ActionRequest, Kind, LeaseFence, Record
from fleetwarden.domain.fleet import Fleet, ServiceStatus
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros
from fleetwarden.domain.lifecycles import OPEN_RECORDS
from fleetwarden.ports.stores import Store, Tx

__all__ = ["FACT", "GroupHealth", "shortfall"]

FACT = "group_health"
_TAKES_DOWN = frozenset({Kind.RESTART, Kind.STOP, Kind.DEPLOY, Kind.ROLLBACK})


class _Seen(Record):
    """When each service of such a group was last seen up, or not up.  `good_for`: how long that counts."""

    up: Mapping[str, Micros] = {}
    not_up: Mapping[str, Micros] = {}
    good_for: Micros = 0


class GroupHealth:
    """`max_age_s`: how old a look may be and still count."""

    def __init__(self, store: Store, *, max_age_s: float) -> None:
        self._store = store
        self._good_for = int(max_age_s * SECOND)

    def run(self, fleet: Fleet, look: Look, fence: LeaseFence) -> None:
        """Write down a look at some or all of the fleet.  Raises Fenced, StoreUnavailable.

        Without a group that says how many must be healthy, nothing is read or written.
        """
        members = {name for name, one in fleet.services.items() if one.group in fleet.min_healthy}
        if not members:
            return

        def run(tx: Tx) -> None:
            tx.leases.check(fence)
            known = _stored(tx)
            up = {name: at for name, at in known.up.items() if name in members and name not in look.seen}
            not_up = {name: at for name, at in known.not_up.items() if name in members and name not in look.seen}
            for name in members & look.seen.keys():
                one = look.seen[name]
                (up if one.status is ServiceStatus.UP else not_up)[name] = one.observed_at
            document: JsonValue = msgspec.to_builtins(_Seen(up=up, not_up=not_up, good_for=self._good_for))
            tx.facts.put(FACT, document)

        self._store.transact("group_health", run)


def _stored(tx: Tx) -> _Seen:
    try:
        return msgspec.convert(tx.facts.get(FACT) or {}, _Seen)
    except msgspec.ValidationError:
        return _Seen()  # nobody is known to be up: fails towards asking


def shortfall(tx: Tx, fleet: Fleet, request: ActionRequest) -> str:
    """Why this action would leave its group with too few healthy services, or "".

    What is not healthy now is not missed by being repaired: only an action on a healthy one can take a group below.
    """
    service = fleet.services.get(request.target)
    least = None if service is None else fleet.min_healthy.get(service.group)
    if service is None or least is None or not _takes_down(request):
        return ""
    seen = _stored(tx)
    fresh = tx.now() - seen.good_for
    flying = {one.request.target for one in tx.outbox.in_state(*OPEN_RECORDS) if one.request.key != request.key}
    well = {
        name
        for name, one in fleet.services.items()
        if one.group == service.group and name not in flying and seen.up.get(name, fresh - 1) >= fresh
    }
    left = well - {request.target}
    ill = seen.not_up.get(request.target, fresh - 1) >= fresh
    if ill or len(left) >= least:
        return ""
    return f"group {service.group} would have {len(left)} healthy services, and min_healthy is {least}"


def _takes_down(request: ActionRequest) -> bool:
    return request.kind in _TAKES_DOWN or (request.kind == Kind.SCALE and request.params.get("replicas") == 0)
