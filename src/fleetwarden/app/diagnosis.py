"""What is wrong with a store or a running plane, as findings that say what to do about each.

Reads and compares, changes nothing, and puts no secret into a finding.  What a controller met is taken from what it
reported; nothing is probed that a pass does not look at anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.loop import TickState
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.health import HealthStatus
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, rfc3339, show_id
from fleetwarden.domain.lifecycles import OutboxState, WorkState
from fleetwarden.ports.stores import Lease, Page, Store, StoreHealth, Tx
from fleetwarden.ports.system import Clock

__all__ = ["Diagnosis", "Finding", "Level", "examine_store", "plain", "store_unreachable"]

T = TypeVar("T")
Level: TypeAlias = Literal["ok", "warning", "error"]
QUEUE_WAITS_S = 120  # something that can be done now is begun within a second or two
STEPS_LOOKED_AT = 500
LEASE_GRACE_S = 30
SKEW_WARNING_S, SKEW_ERROR_S = 2, 30
EXPIRES_SOON_S = 3 * 86_400


class Finding(Record):
    """One thing that was looked at.  `hint`: what to do about it; empty where nothing is to be done."""

    check: str
    level: Level
    told: str
    hint: str = ""


def plain(findings: Sequence[Finding]) -> dict[str, JsonValue]:
    """`{findings, errors, warnings}`."""
    return {
        "findings": [
            {"check": one.check, "level": one.level, "told": one.told, "hint": one.hint or None} for one in findings
        ],
        "errors": sum(1 for one in findings if one.level == "error"),
        "warnings": sum(1 for one in findings if one.level == "warning"),
    }


def store_unreachable(error: FleetError) -> Finding:
    """The first thing that has to work."""
    return Finding(
        check="store",
        level="error",
        told=f"the store cannot be used: {error.message}",
        hint=error.hint or "nothing is decided or done until it answers again",
    )


def examine_store(store: Readable, clock: Clock) -> list[Finding]:
    """What the store itself tells, with or without a plane."""
    try:
        health = store.health()
        found = store.read(lambda tx: _in_store(tx, clock))
    except FleetError as error:
        return [store_unreachable(error)]
    if health.detail:
        found.insert(0, Finding(check="store", level="warning", told=health.detail, hint="set the clock right"))
    else:
        found.insert(0, Finding(check="store", level="ok", told=f"{health.dialect} answers"))
    return found


def _in_store(tx: Tx, clock: Clock) -> list[Finding]:
    now = tx.now()
    return [*_skew(now, clock.now()), *_freezes(tx), *_queue(tx, now), *_unknown(tx), *_tokens(tx, now)]


def _skew(theirs: Micros, ours: Micros) -> list[Finding]:
    apart = abs(theirs - ours) // SECOND
    if apart < SKEW_WARNING_S:
        return [Finding(check="clock", level="ok", told="the store's clock and this machine's agree")]
    side = "ahead of" if theirs > ours else "behind"
    return [
        Finding(
            check="clock",
            level="error" if apart >= SKEW_ERROR_S else "warning",
            told=f"the store's clock is {apart} s {side} this machine's",
            hint="rules read the store's clock, people this one's: let both follow the same time server",
        )
    ]


def _freezes(tx: Tx) -> list[Finding]:
    held = {one.freeze_seq: one for one in tx.epochs.holding()}
    found = []
    for one in tx.freezes.active():
        if one.seq in held:
            told = f"the store was restored and is frozen since {rfc3339(one.at)}"
            hint = "look at the services and at 'fleetwarden recover list', then: fleetwarden db release --reason …"
            found.append(Finding(check="epoch", level="error", told=told, hint=hint))
        else:
            where = "everything" if one.scope == "all" else f"{one.scope} {one.value}"
            told = f"{show_id('F', one.seq)} by {one.owner} freezes {where}" + (f": {one.reason}" if one.reason else "")
            hint = "fleetwarden freeze off" + ("" if one.scope == "all" else f" --{one.scope} {one.value}")
            found.append(Finding(check="freeze", level="warning", told=told, hint=hint))
    return found or [Finding(check="freeze", level="ok", told="nothing is frozen")]


def _waits_s(tx: Tx, now: Micros) -> int:
    """How long a step that can be done has been waiting, as far as the newest of them tell."""
    due = tx.work.next_due()
    if due is None or now - due <= QUEUE_WAITS_S * SECOND:
        return 0
    ready = tx.work.list(Page(state=WorkState.READY.value, limit=STEPS_LOOKED_AT))
    since = [max(one.not_before, one.updated_at) for one in ready]  # put in the queue, or back into it
    return max(0, *((now - one) // SECOND for one in since)) if since else 0


def _queue(tx: Tx, now: Micros) -> list[Finding]:
    late = _waits_s(tx, now)
    if late > QUEUE_WAITS_S:
        told = f"the queue does not drain: a step has been waiting for {late} s"
        hint = "is a plane running?  'fleetwarden work list --state ready' names the steps"
        return [Finding(check="queue", level="error", told=told, hint=hint)]
    waiting = [one for one in tx.outbox.in_state(OutboxState.PREPARED) if now - one.expires_at > QUEUE_WAITS_S * SECOND]
    if waiting:
        told = f"{len(waiting)} authorised actions have lapsed and nobody put them away, the oldest {waiting[0].id}"
        return [Finding(check="queue", level="error", told=told, hint="the executor does not run: is a plane up?")]
    return [Finding(check="queue", level="ok", told="no step waits longer than it has to")]


def _unknown(tx: Tx) -> list[Finding]:
    rows = tx.outbox.in_state(OutboxState.RECOVERY_PENDING)
    if not rows:
        return [Finding(check="outcomes", level="ok", told="every outcome is known")]
    told = f"the outcome of {len(rows)} actions is unknown, the oldest {rows[0].id} on {rows[0].request.target}"
    return [Finding(check="outcomes", level="warning", told=told, hint="fleetwarden recover list")]


def _tokens(tx: Tx, now: Micros) -> list[Finding]:
    standing = [one for one in tx.tokens.all() if one.revoked_at is None]
    found = []
    for one in standing:
        if one.expires_at is not None and one.expires_at <= now:
            told, hint = f"the token {one.name} expired at {rfc3339(one.expires_at)}", "token revoke or token rotate"
            found.append(Finding(check="tokens", level="warning", told=told, hint=f"fleetwarden {hint}"))
        elif one.expires_at is not None and one.expires_at - now < EXPIRES_SOON_S * SECOND:
            told, hint = f"the token {one.name} expires at {rfc3339(one.expires_at)}", f"token rotate {one.name}"
            found.append(Finding(check="tokens", level="warning", told=told, hint=f"fleetwarden {hint}"))
    live = [one for one in standing if one.expires_at is None or one.expires_at > now]
    if not any(Role.ADMIN.value in one.roles for one in live):
        told, hint = "no admin token is valid", "fleetwarden token create --local, while no plane runs"
        found.append(Finding(check="tokens", level="error", told=told, hint=hint))
    counted = (
        "1 token is valid, it does not expire soon"
        if len(live) == 1
        else f"{len(live)} tokens are valid, none expires soon"
    )
    return found or [Finding(check="tokens", level="ok", told=counted)]


class Readable(Protocol):
    """What can be read of a store, by its owner or by a glance."""

    def read(self, fn: Callable[[Tx], T]) -> T: ...

    def health(self) -> StoreHealth: ...


class Diagnosis:
    """Examines a running plane.  `leased`: the passes that need a lease; `ticks`: what each pass did last."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        supervision: Supervision,
        ticks: Mapping[str, TickState],
        leased: Sequence[str],
        warnings: Sequence[str],
    ) -> None:
        self._store = store
        self._clock = clock
        self._supervision = supervision
        self._ticks = ticks
        self._leased = leased
        self._warnings = warnings

    def examine(self, caller: Caller) -> dict[str, JsonValue]:
        """All findings of the plane and its store, with what is in order."""
        require(caller, Role.VIEWER)
        settings = [
            Finding(check="settings", level="warning", told=one, hint="in the settings or the configuration folder")
            for one in self._warnings
        ]
        found = [*self._passes(), *self._held(), *self._dependencies(), *settings]
        return plain([*examine_store(self._store, self._clock), *found])

    def stalled(self) -> list[str]:
        """What does not move, in the words of a probe: no names of services, no secrets.  Never raises."""
        found = [*self._passes(), *self._held()]
        try:
            found += self._store.read(lambda tx: _queue(tx, tx.now()))
        except FleetError:
            found.append(Finding(check="store", level="error", told="the store cannot be read"))
        return [f"{one.check}: {one.told}" for one in found if one.level == "error"]

    def _passes(self) -> list[Finding]:
        found = []
        for name, state in sorted(self._ticks.items()):
            if state.late:
                told, hint = f"{name} is overdue: {state.late}", "plane.log says what it waits for; restart the plane"
                found.append(Finding(check="pass", level="error", told=told, hint=hint))
            if state.slow:
                told = f"{name} is slow: {state.slow}"
                hint = "nothing is held for that; see what it waits for in plane.log, or raise its interval"
                found.append(Finding(check="pass", level="warning", told=told, hint=hint))
            if state.error:
                told, hint = f"the last pass of {name} failed: {state.error}", "it is tried again by itself"
                found.append(Finding(check="pass", level="warning", told=told, hint=hint))
            if state.restarts:
                told = f"the thread of {name} died and was started again, {state.restarts} times"
                found.append(Finding(check="pass", level="warning", told=told, hint="please report it, with plane.log"))
        return found or [Finding(check="pass", level="ok", told=f"{len(self._ticks)} passes run on time")]

    def _held(self) -> list[Finding]:
        try:
            now, leases = self._store.read(lambda tx: (tx.now(), tx.leases.list()))
        except FleetError:
            return []  # the store is named as what is wrong
        held = {one.fence.cadence for one in leases if _lives(one, now)}
        begun = {name for name in self._leased if self._ticks[name].runs}
        found = [
            Finding(
                check="lease",
                level="error",
                told=f"nobody holds the lease of {name}",
                hint="its pass cannot begin: 'fleetwarden status' names its last error",
            )
            for name in sorted(begun - held)
        ]
        return found or [Finding(check="lease", level="ok", told="every lease is held")]

    def _dependencies(self) -> list[Finding]:
        found = []
        for name, one in sorted(self._supervision.evidence().dependencies.items()):
            if one.status is not HealthStatus.HEALTHY and name != "store" and not name.startswith("controller:"):
                told = f"{name} is {one.status.value}: {'; '.join(one.diagnostics) or 'no evidence'}"
                hint = "nothing is proposed on what it cannot tell; 'fleetwarden status' says more"
                found.append(Finding(check="substrate", level="error", told=told, hint=hint))
        return found or [Finding(check="substrate", level="ok", told="everything that is observed answers")]


def _lives(one: Lease, now: Micros) -> bool:
    return one.expires_at + LEASE_GRACE_S * SECOND > now
