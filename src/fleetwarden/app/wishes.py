"""What people ask for besides the files: overrides of services, and their answer to what somebody else changed.

A wish is a row that every pass goes by; nothing is done here, and policy decides every action that follows from it.
Each is one transaction under the admission lock with a line in the journal that says who and why.  What would have no
effect is refused, never kept and ignored.
"""

from __future__ import annotations

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.override_revisions import note_override
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.wishes import answer_changes
from fleetwarden.domain.desired import ForeignChange, ForeignState, Override
from fleetwarden.domain.errors import Misconfigured, NotFound, Refused
from fleetwarden.domain.fleet import DesiredState, Mode, Service
from fleetwarden.domain.identifiers import SECOND, JsonValue, rfc3339
from fleetwarden.domain.service_entry import PROCESS_REPLICAS_MAX, REPLICAS_MAX
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.desired import OverrideDraft
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Wishes", "change_view", "notes", "override_view"]

FOR_MAX_S = 366 * 86_400
REASON_MAX = 500  # it stands wherever the override does
RECONCILER = "fleet_reconciler"


def override_view(one: Override) -> views.Item:
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "target": one.service,
        "replicas": one.replicas,
        "state": None if one.state is None else one.state.value,
        "reason": one.reason,
        "by": one.by,
        "until": rfc3339(one.until),
        "ended_at": rfc3339(one.ended_at),
        "ended_by": one.ended_by or None,
        "ended_how": one.ended_how or None,
    }


def change_view(one: ForeignChange) -> views.Item:
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "target": one.service,
        "kind": one.field.value,
        "field": one.field.value,
        "before": one.before,
        "after": one.after,
        "writer": one.writer or None,
        "hold_until": rfc3339(one.hold_until),
        "pauses": one.pauses,
        "state": one.status.value,
        "ended_at": rfc3339(one.ended_at),
        "ended_by": one.ended_by or None,
        "note": one.note,
    }


class Wishes:
    """Writes and ends wishes."""

    def __init__(self, store: Store, configuration: ConfigurationSource, wakes: Wakes) -> None:
        self._store = store
        self._configuration = configuration
        self._wakes = wakes

    def put_override(
        self,
        caller: Caller,
        name: str,
        *,
        replicas: int | None,
        state: str | None,
        for_s: float | None,
        reason: str,
    ) -> views.Item:
        """Ask for a count or a state until it is cleared, or for `for_s` seconds (1 s to 366 d); it replaces the
        service's earlier one.

        Raises Forbidden, NotFound (no such service), Misconfigured (nothing asked for, out of range, no reason),
        Refused (it could have no effect, or the count is somebody else's to set).
        """
        self._require(caller, name)
        service = self._service(name)
        wanted = _checked(service, replicas, state, for_s, reason)

        def run(tx: Tx) -> views.Item:
            tx.lock_admission(exclusive=True)
            until = None if for_s is None else tx.now() + int(for_s * SECOND)
            made = tx.service_overrides.put(
                OverrideDraft(
                    service=name, replicas=replicas, state=wanted, reason=reason, by=caller.person, until=until
                )
            )
            ended = answer_changes(tx, made)
            note_override(tx, service, made)
            told = "" if until is None else f" until {rfc3339(until)}"
            self._note(
                tx,
                "override",
                caller,
                name,
                f"{caller.person} overrides {name}{told}: {made.words} ({made.id}): {reason}",
                {"override": made.id, "reason": reason, "until": rfc3339(until), "replaces": ended},
            )
            return override_view(made)

        return self._store.transact("put_service_override", run)

    def clear_override(self, caller: Caller, name: str, *, reason: str) -> views.Item:
        """End a service's override: the files count again.  Raises Forbidden, NotFound."""
        self._require(caller, name)
        _refuse_long(reason)

        def run(tx: Tx) -> views.Item:
            tx.lock_admission(exclusive=True)
            known = [one for one in tx.service_overrides.standing() if one.service == name]
            if not known:
                raise NotFound(f"{name} has no override", hint="fleetwarden override list shows those that stand")
            ended = tx.service_overrides.end(known[0].seq, how="cleared", by=caller.person)
            why = f": {reason}" if reason else ""
            said = f"{caller.person} cleared override {ended.id} of {name} ({ended.words}){why}"
            self._note(tx, "override", caller, name, said, {"override": ended.id, "how": "cleared", "reason": reason})
            return override_view(ended)

        return self._store.transact("clear_service_override", run)

    def adopt(self, caller: Caller, name: str, *, reason: str) -> dict[str, JsonValue]:
        """Keep what somebody else set: it is asked for from now on, until `reassert` or an override of the same field.

        Raises Forbidden, NotFound (nothing of the service is held).
        """
        return self._answer(caller, name, ForeignState.ADOPTED, reason)

    def reassert(self, caller: Caller, name: str, *, reason: str) -> dict[str, JsonValue]:
        """Put back what is asked for: what was held or adopted counts no more.  Raises as `adopt`."""
        return self._answer(caller, name, ForeignState.REASSERTED, reason)

    def _answer(self, caller: Caller, name: str, to: ForeignState, reason: str) -> dict[str, JsonValue]:
        self._require(caller, name)
        _refuse_long(reason)
        ends = (ForeignState.HELD,) if to is ForeignState.ADOPTED else (ForeignState.HELD, ForeignState.ADOPTED)

        def run(tx: Tx) -> dict[str, JsonValue]:
            tx.lock_admission(exclusive=True)
            mine = [one for one in tx.foreign.standing() if one.service == name]
            chosen = [one for one in mine if one.status in ends]
            if not chosen:
                raise NotFound(
                    f"nothing that somebody else changed in {name} is held",
                    hint=f"fleetwarden history {name} shows what was",
                )
            fields = {one.field for one in chosen}
            for old in mine:
                if old not in chosen and old.field in fields:
                    tx.foreign.move(
                        old.seq, came_from=old.status, to=ForeignState.REPLACED, by=caller.person, note="adopted anew"
                    )
            moved = [
                tx.foreign.move(one.seq, came_from=one.status, to=to, by=caller.person, note=reason) for one in chosen
            ]
            did = "keeps" if to is ForeignState.ADOPTED else "has put back"
            what = "; ".join(f"{one.words} ({one.id})" for one in moved)
            why = f": {reason}" if reason else ""
            said = f"{caller.person} {did} what was changed in {name}, {what}{why}"
            detail: dict[str, JsonValue] = {"changes": [one.id for one in moved], "status": to.value, "reason": reason}
            self._note(tx, "foreign_change", caller, name, said, detail)
            return {"service": name, "changes": [change_view(one) for one in moved], "message": said}

        return self._store.transact(to.value, run)

    def _note(self, tx: Tx, topic: str, caller: Caller, name: str, summary: str, detail: dict[str, JsonValue]) -> None:
        tx.journal.write(
            topic=topic, actor=caller.person, subject=name, severity="warning", summary=summary, detail=detail
        )
        tx.after_commit(self._wakes.waker(RECONCILER))

    def _require(self, caller: Caller, name: str) -> None:
        """Raises Forbidden; a role that is limited to a group is good for the services of that group."""
        service = self._configuration.current().last_good_fleet.services.get(name)
        require(caller, Role.OPERATOR, None if service is None else service.group)

    def _service(self, name: str) -> Service:
        services = self._configuration.current().last_good_fleet.services
        if name not in services:
            known = ", ".join(sorted(services)[:20]) or "none"
            raise NotFound(f"no service {name!r} in the registry", hint=f"known: {known}")
        return services[name]


def _checked(
    service: Service, replicas: int | None, state: str | None, for_s: float | None, reason: str
) -> DesiredState | None:
    """The state that is asked for.  Raises as `put_override`."""
    name, most = service.name, PROCESS_REPLICAS_MAX if service.process is not None else REPLICAS_MAX
    if replicas is None and state is None:
        raise Misconfigured(f"an override of {name} has to ask for something", hint="give replicas, state, or both")
    if replicas is not None and not 0 <= replicas <= most:
        raise Misconfigured(f"{replicas} replicas of {name} are out of range", hint=f"0 to {most}")
    if state is not None and state not in tuple(DesiredState):
        raise Misconfigured(f"{state!r} is no state to ask for", hint="running or stopped")
    if for_s is not None and not 1 <= for_s <= FOR_MAX_S:
        raise Misconfigured(f"an override for {for_s} s is out of range", hint="1 second to 366 days")
    if not reason.strip():
        raise Misconfigured("an override needs a reason", hint="it stands wherever the override does")
    _refuse_long(reason)
    owner = "native" if service.scaling is None else service.scaling.controller_mode
    if owner != "native":
        raise Refused(
            f"the replicas of {name} belong to {owner}: they are not overridden here",
            code="external_owner",
            hint=f"change them there, or hand {name} over to native",
        )
    if service.mode is Mode.OBSERVE:
        raise Refused(
            f"the mode of {name} is observe: it is left alone, and an override would do nothing",
            code="observe_only",
            hint="set another mode in the registry first",
        )
    return None if state is None else DesiredState(state)


def _refuse_long(reason: str) -> None:
    if len(reason) > REASON_MAX:
        raise Misconfigured(f"a reason of {len(reason)} characters is too long", hint=f"at most {REASON_MAX}")


def notes(service: Service, override: views.Item | None) -> list[str]:
    """What people have to know of a service that is not as the files say: one sentence each, times in UTC."""
    told = []
    if override is not None:
        asks = [] if override["state"] is None else [str(override["state"])]
        asks += [] if override["replicas"] is None else [f"replicas {override['replicas']}"]
        until = "until it is cleared" if override["until"] is None else f"until {override['until']}"
        told.append(
            f"{service.name}: override {override['id']} of {override['by']}, {', '.join(asks)}, {until}:"
            f" {override['reason']} (fleetwarden override clear {service.name})"
        )
    if service.paused or service.held:
        told.append(f"{service.name}: {service.paused or service.held}")
    return told
