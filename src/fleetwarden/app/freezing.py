"""The kill switch: freezes of the whole fleet, of a group, of a kind of action, or of one service.

Works on a store alone, so that a stopped plane can be frozen before it is started.  Every change is one transaction
under the admission lock with a line in the journal: once `freeze` has answered, nothing that it covers is begun any
more.  Whether a FREEZE file exists is always looked up before a transaction begins, never inside one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.domain import freezing
from fleetwarden.domain.actions import KNOWN_KINDS, OutboxRecord
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import SECOND, JsonValue, show_id
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.outside import kind_problem
from fleetwarden.domain.recovery import after_horizon
from fleetwarden.ports.stores import Freeze, Page, Store, Tx

__all__ = ["FOR_MAX_S", "REASON_MAX", "Freezing"]

FOR_MAX_S = 366 * 86_400
REASON_MAX = 500  # it stands in every denial while the freeze holds


class Freezing:
    """`freeze_file` looks for a FREEZE file now and returns its path or ""; `fleet` is what is declared now (left out:
    names are taken as they are given)."""

    def __init__(self, store: Store, freeze_file: Callable[[], str], fleet: Callable[[], Fleet] | None = None) -> None:
        self._store = store
        self._freeze_file = freeze_file
        self._fleet = fleet or (lambda: Fleet(error="nothing was declared to this process"))

    def freeze_status(self, caller: Caller) -> dict[str, JsonValue]:
        """`{frozen, freezes, freeze_file, in_flight}`."""
        require(caller, Role.VIEWER)
        file = self._freeze_file()
        return self._store.read(lambda tx: _frozen(tx, file, "all", ""))

    def freeze(
        self, caller: Caller, *, reason: str, for_s: float | None, scope: str = "all", value: str = ""
    ) -> dict[str, JsonValue]:
        """Stop actuation in a scope.  Once this has answered nothing further is fenced there; `in_flight` names what of
        it is running.

        Raises Forbidden, Misconfigured (`for_s` not in 1 s to 366 d, no such scope or kind), NotFound (group, service).
        """
        self._require(caller, scope, value)
        if len(reason) > REASON_MAX:
            raise Misconfigured(f"a reason of {len(reason)} characters is too long", hint=f"at most {REASON_MAX}")
        if for_s is not None and not 1 <= for_s <= FOR_MAX_S:
            raise Misconfigured(f"a freeze of {for_s} s is out of range", hint="1 second to 366 days")
        self._refuse_unknown(scope, value)
        file = self._freeze_file()

        def run(tx: Tx) -> dict[str, JsonValue]:
            tx.lock_admission(exclusive=True)
            until = None if for_s is None else tx.now() + int(for_s * SECOND)
            made = tx.freezes.add(owner=caller.person, reason=reason, until=until, scope=scope, value=value)
            tx.journal.write(
                topic="freeze",
                actor=caller.person,
                subject=value,
                severity="warning",
                summary=f"{caller.person} froze {freezing.words(scope, value)}" + (f": {reason}" if reason else ""),
                detail={"freeze": made.seq},
            )
            return _frozen(tx, file, scope, value)

        return self._store.transact("freeze_on", run)

    def thaw(self, caller: Caller, *, reason: str, scope: str = "", value: str = "") -> dict[str, JsonValue]:
        """End freezes that a command made: of exactly that scope, `all` being the whole fleet's; "" ends every one.

        What is left, and a FREEZE file, which stays until it is removed, are in the answer.  Raises Forbidden; NotFound
        if a part of the fleet was named and nothing is frozen there.
        """
        self._require(caller, scope or "all", value)
        file = self._freeze_file()

        def run(tx: Tx) -> dict[str, JsonValue]:
            tx.lock_admission(exclusive=True)
            held = {one.freeze_seq for one in tx.epochs.holding()}  # after a restore: only an admin's release ends it
            standing = [one for one in tx.freezes.active() if one.seq not in held]
            chosen = [one for one in standing if not scope or (one.scope, one.value) == (scope, value)]
            if not chosen and scope == "all":
                return _frozen(tx, file, "all", "")
            if scope and not chosen:
                raise NotFound(f"no freeze of {scope} {value} stands", hint="freeze status names all")
            for one in chosen:
                tx.freezes.lift(one.seq, caller.person)
            ids = ", ".join(show_id("F", one.seq) for one in chosen)
            what = f"the freeze of {freezing.words(scope, value)}" if scope else f"every freeze ({ids or 'none stood'})"
            tx.journal.write(
                topic="freeze",
                actor=caller.person,
                subject=value,
                severity="warning",
                summary=f"{caller.person} lifted {what}" + (f": {reason}" if reason else ""),
            )
            return _frozen(tx, file, "all", "")

        return self._store.transact("freeze_off", run)

    def _require(self, caller: Caller, scope: str, value: str) -> None:
        """A role that is limited to a group freezes that group and its services, nothing else."""
        if scope == "group":
            return require(caller, Role.OPERATOR, value)
        service = self._fleet().services.get(value) if scope == "service" else None
        return require(caller, Role.OPERATOR, None if service is None else service.group)

    def _refuse_unknown(self, scope: str, value: str) -> None:
        """A freeze of something that does not exist would freeze nothing, and look like one that does."""
        if scope not in freezing.SCOPES:
            raise Misconfigured(f"{scope!r} is no scope of a freeze", hint=f"one of {', '.join(freezing.SCOPES)}")
        if (scope == "all") == bool(value):
            raise Misconfigured(f"a freeze of {scope} {'takes no name' if value else 'needs a name'}")
        fleet = self._fleet()
        if scope == "kind" and self._of_others(value):
            return
        known = {"kind": KNOWN_KINDS, "group": _groups(fleet), "service": fleet.services}.get(scope)
        # While the registry cannot be read its names cannot be checked, and freezing comes first.
        if known is not None and value not in known and (scope == "kind" or not fleet.error):
            close = get_close_matches(value, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)[:20]) or 'none'}"
            error = Misconfigured if scope == "kind" else NotFound
            raise error(f"there is no {scope} {value!r}: nothing was frozen", hint=hint)

    def _of_others(self, kind: str) -> bool:
        """Whether it names a kind of another system's own: no slip of the pen for one of ours, or decided before."""
        if kind in KNOWN_KINDS or kind_problem(kind):
            return False
        decided = self._store.read(lambda tx: tx.decisions.list(Page(kind=kind, limit=1)))
        return bool(decided) or not get_close_matches(kind, KNOWN_KINDS, n=1)


def _groups(fleet: Fleet) -> frozenset[str]:
    """Every group that is declared or that a service is in."""
    return frozenset({*fleet.groups, *(one.group for one in fleet.services.values() if one.group)})


def _frozen(tx: Tx, file: str, scope: str, value: str) -> dict[str, JsonValue]:
    """What is frozen, and what of a scope is in flight all the same.

    An unknown outcome may still land until its horizon, or for ever where none is known.
    """
    active: Sequence[Freeze] = tx.freezes.active()
    running = [
        one
        for one in tx.outbox.in_state(OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
        if _in(one, scope, value)
        and (one.state is OutboxState.RUNNING or one.negatives_by_person or not after_horizon(one, tx.now()))
    ]
    return {
        "frozen": bool(active or file),
        "freezes": [views.freeze(one) for one in active],
        "freeze_file": file or None,
        "in_flight": [one.id for one in running],
        "in_flight_actions": [views.record(one) for one in running],
    }


def _in(record: OutboxRecord, scope: str, value: str) -> bool:
    request = record.request
    return freezing.covers(scope, value, kind=request.kind, target=request.target, group=request.group)
