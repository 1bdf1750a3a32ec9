"""Watches and quarantines as people ask about them, and a person's word that clears one.

Every change is one transaction with a line in the journal that says who and why.  Nothing here looks at a service.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.app import views
from fleetwarden.app.freezing import REASON_MAX
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.deploy_watch import DeployWatch, Probe, Quarantine
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import JsonValue, rfc3339, seconds, show_id
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Quarantining", "quarantine_view", "watch_view"]


def watch_view(one: DeployWatch) -> views.Item:
    """A watch as it stands, its looks oldest first; equal looks are one, from when they began."""
    return {
        "id": one.id,
        "at": rfc3339(one.started),
        "kind": one.kind,
        "target": one.service,
        "service": one.service,
        "action_id": None if one.action_seq is None else show_id("X", one.action_seq),
        "source": one.source,
        "status": one.status.value,
        "state": one.status.value,
        "version": one.version or None,
        "from_version": one.from_version or None,
        "from_replicas": one.from_replicas,
        "replica": one.replica or None,
        "on_fail": one.on_fail.value,
        "deadline": rfc3339(one.deadline),
        "grace_until": rfc3339(one.grace_until),
        "poll_s": seconds(one.poll) if one.poll else None,
        "looks": one.made,
        "usable": one.usable,
        "healthy": one.healthy,
        "probes": [_probe(each) for each in one.probes],
        "proven": one.proven,
        "reason": one.reason,
        "ended_at": rfc3339(one.ended_at),
        "replaced_by": None if one.replaced_by is None else show_id("V", one.replaced_by),
        "follow_up": one.follow_up or None,
    }


def _probe(one: Probe) -> JsonValue:
    return {
        "at": rfc3339(one.at),
        "sight": one.sight.value,
        "ready": one.ready,
        "total": one.total,
        "version": one.version or None,
        "detail": one.detail,
    }


def quarantine_view(one: Quarantine) -> views.Item:
    """A version that is, or was, set aside."""
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "target": one.service,
        "service": one.service,
        "version": one.version,
        "watch_id": show_id("V", one.watch_seq),
        "reason": one.reason,
        "stands": one.cleared_at is None,
        "cleared_at": rfc3339(one.cleared_at),
        "cleared_by": one.cleared_by or None,
        "note": one.note,
    }


class Quarantining:
    """Clears quarantines.  `fleet`: what is declared now."""

    def __init__(self, store: Store, fleet: Callable[[], Fleet], wakes: Wakes) -> None:
        self._store = store
        self._fleet = fleet
        self._wakes = wakes

    def clear(self, caller: Caller, service: str, *, reason: str) -> dict[str, JsonValue]:
        """Clear every quarantine of a service: its versions may be deployed again.

        Raises Forbidden, NotFound (none stands), Misconfigured (no reason, or one that is too long).
        """
        declared = self._fleet().services.get(service)
        require(caller, Role.OPERATOR, "" if declared is None else declared.group)
        if not reason.strip():
            raise Misconfigured("clearing a quarantine needs a reason", hint="say what was wrong, and what was mended")
        if len(reason) > REASON_MAX:
            raise Misconfigured(f"a reason of {len(reason)} characters is too long", hint=f"at most {REASON_MAX}")

        def run(tx: Tx) -> list[JsonValue]:
            standing = [one for one in tx.quarantines.standing() if one.service == service]
            if not standing:
                raise NotFound(
                    f"no version of {service!r} is in quarantine", hint="fleetwarden quarantine list names those"
                )
            cleared = [tx.quarantines.clear(one.seq, by=caller.person, note=reason) for one in standing]
            named = ", ".join(one.version for one in cleared)
            tx.journal.write(
                topic="notice",
                actor=caller.person,
                subject=service,
                severity="warning",
                summary=f"{caller.person} cleared version {named} of {service}: {reason}",
                detail={"quarantines": [one.id for one in cleared]},
            )
            tx.after_commit(self._wakes.waker("fleet_reconciler"))
            return [quarantine_view(one) for one in cleared]

        return {"items": self._store.transact("quarantine_clear", run)}
