"""Changes that somebody else made: found, told once, held, and ended when their hold is over.

What the substrate is set to is compared with what our last settled action, or the first look, left.  While an action of
ours is open, or its effect may still land, nothing is judged: what is not certainly somebody else's is never called
so.  Nothing is put back here; a held change is layered over what is asked for, and the next pass goes by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import structlog

from fleetwarden.controllers.gate import held_until
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import LeaseFence, OutboxRecord, Outcome, Record
from fleetwarden.domain.desired import (
    SOLE_WRITER,
    Baseline,
    Change,
    ForeignChange,
    ForeignField,
    ForeignState,
    asked_for,
    baseline_of,
    changes_since,
    left_by,
)
from fleetwarden.domain.fleet import Mode, ObservedService, Presence, Service
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.outside import carried_out_elsewhere
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.desired import ForeignDraft
from fleetwarden.ports.stores import Store, Tx

__all__ = ["ForeignWatch", "end_due", "remember_left", "touched"]

log = structlog.get_logger(__name__)
ACTOR = "reconciler"


class _Finding(Record):
    """What one look says of one service: the baseline to keep from now on, and what somebody else changed."""

    service: Service
    observed: ObservedService
    baseline: Baseline
    changes: tuple[Change, ...] = ()
    resumed: bool = False  # it runs again, and we did not start it


class ForeignWatch:
    """Finds, holds and ends.  `hold_s`: how long a count that somebody else set is not put back."""

    def __init__(self, store: Store, *, hold_s: float) -> None:
        self._store = store
        self._hold: Micros = int(hold_s * SECOND)

    def expire(self, fence: LeaseFence) -> int:
        """End what is past its end, visibly; returns how many.  Raises Fenced, StoreUnavailable."""

        def run(tx: Tx) -> int:
            tx.lock_admission(exclusive=True)
            tx.leases.check(fence)
            return end_due(tx)

        overdue = self._store.read(lambda tx: bool(tx.service_overrides.due() or tx.foreign.due()))
        return self._store.transact("end_wishes", run) if overdue else 0

    def run(self, configuration: Configuration, seen: Mapping[str, ObservedService], fence: LeaseFence) -> int:
        """Judge one look; returns how much of what is asked for changed by it.  `configuration` is not layered yet.

        Raises Fenced, StoreUnavailable.
        """

        def write(tx: Tx) -> int:
            tx.lock_admission(exclusive=True)
            tx.leases.check(fence)
            return self.judge(tx, configuration, seen)

        if not self._store.read(lambda tx: self._find(tx, configuration, seen)):
            return 0
        return self._store.transact("foreign", write)

    def foreseen(self, tx: Tx, configuration: Configuration, seen: Mapping[str, ObservedService]) -> Configuration:
        """What would be asked for after a pass with this look.  For a rehearsal: it writes like a pass."""
        tx.lock_admission(exclusive=True)
        end_due(tx)
        self.judge(tx, configuration, seen)
        return as_asked(tx, configuration)

    def judge(self, tx: Tx, configuration: Configuration, seen: Mapping[str, ObservedService]) -> int:
        """Find and write down, in the caller's transaction; returns as `run`."""
        found = self._find(tx, as_asked(tx, configuration), seen)
        for one in found:
            tx.baselines.put(one.baseline)
            if one.resumed:
                _resumed(tx, one.service.name)
            if one.changes:
                self._record(tx, one)
        return sum(len(one.changes) + one.resumed for one in found)

    def _find(self, tx: Tx, configuration: Configuration, seen: Mapping[str, ObservedService]) -> Sequence[_Finding]:
        known = tx.baselines.all()
        found = []
        for name, observed in seen.items():
            service = configuration.fleet.services.get(name)
            if service is None or service.substrate in SOLE_WRITER:
                continue
            before = known.get(name)
            if before is not None and _as_left(before, observed):
                continue
            finding = _compare(service, observed, before)
            if finding is not None and tx.outbox.open_of(name) is None and held_until(tx, name) is None:
                found.append(finding)
        return found

    def _record(self, tx: Tx, finding: _Finding) -> None:
        name = finding.service.name
        held = [one for one in tx.foreign.standing() if one.service == name and one.status is ForeignState.HELD]
        for change in finding.changes:
            agreed = asked_for(finding.service, change)
            second = bool(held) and not agreed
            counted = change.field is ForeignField.REPLICAS and not second
            if not agreed:
                for old in held:
                    if old.field is change.field:
                        _end(tx, old, ForeignState.REPLACED, "somebody else changed it again")
            made = tx.foreign.add(
                ForeignDraft(
                    service=name,
                    field=change.field,
                    before=change.before,
                    after=change.after,
                    writer=finding.observed.writer,
                    hold_until=tx.now() + self._hold if counted and not agreed else None,
                    pauses=second,
                    status=ForeignState.AGREED if agreed else ForeignState.HELD,
                )
            )
            _tell(tx, made)


def _as_left(before: Baseline, observed: ObservedService) -> bool:
    """Whether a look shows just what we left: nearly always, so it costs nothing more."""
    return (
        before.stopped is False
        and observed.presence is Presence.STARTED
        and observed.total == before.replicas
        and observed.version == (before.version or "")
    )


def _compare(service: Service, observed: ObservedService, before: Baseline | None) -> _Finding | None:
    """What is to be written down after this look, or None."""
    if before is not None and observed.observed_at <= before.at:
        return None
    # Where we only look, or would only pretend, everything is somebody else's and nothing is held.
    ours = before is not None and service.mode is Mode.LIVE
    changes = tuple(changes_since(before, observed)) if ours and before is not None else ()
    baseline = baseline_of(service, observed, before)
    if not changes and msgspec.structs.replace(baseline, at=0) == (
        Baseline(service=service.name) if before is None else msgspec.structs.replace(before, at=0)
    ):
        return None
    resumed = before is not None and before.stopped is True and observed.presence is Presence.STARTED
    return _Finding(service=service, observed=observed, baseline=baseline, changes=changes, resumed=resumed)


def _resumed(tx: Tx, name: str) -> None:
    for one in tx.foreign.standing():
        if one.service == name and one.field is ForeignField.STATE and one.status is ForeignState.HELD:
            _end(tx, one, ForeignState.REPLACED, "somebody else started it again")


def _end(tx: Tx, change: ForeignChange, to: ForeignState, why: str) -> None:
    tx.foreign.move(change.seq, came_from=ForeignState.HELD, to=to, by=ACTOR, note=why)
    tx.journal.write(
        topic="foreign_change",
        actor=ACTOR,
        subject=change.service,
        summary=f"{change.id} of {change.service} is {to.value}: {why}",
        detail={"change": change.id, "status": to.value},
    )


def _tell(tx: Tx, change: ForeignChange) -> None:
    """The ledger's entry, and one notice; the second change within a hold pages."""
    name = change.service
    agreed = change.status is ForeignState.AGREED
    detail = {
        "change": change.id,
        "field": change.field.value,
        "before": change.before,
        "after": change.after,
        "writer": change.writer or None,
        "hold_until": rfc3339(change.hold_until),
        "status": change.status.value,
    }
    said = f"{name} was {change.words} ({change.id})"
    severity = "info" if agreed else "critical" if change.pauses else "warning"
    tx.journal.write(
        topic="foreign_change",
        actor=change.writer or "somebody else",
        subject=name,
        severity=severity,
        summary=said,
        detail=detail,
    )
    if agreed:
        what = "that is what is asked for"
    elif change.pauses:
        what = "it is the second change by somebody else, so nothing more is done to it"
    else:
        what = "it is held" + ("" if change.hold_until is None else f" until {rfc3339(change.hold_until)}")
    release = "" if agreed else f"; keep it: fleetwarden adopt {name}; put it back: fleetwarden reassert {name}"
    tx.journal.write(
        topic="notice",
        actor=ACTOR,
        subject=name,
        severity=severity,
        summary=f"{said}: {what}{release}",
        detail=detail,
    )
    log.warning("foreign change", service=name, field=change.field.value, before=change.before, after=change.after)


def end_due(tx: Tx) -> int:
    """End overrides and holds whose end has come; part of the caller's transaction."""
    ended = 0
    for override in tx.service_overrides.due():
        tx.service_overrides.end(override.seq, how="expired", by=ACTOR)
        _notice_end(
            tx,
            "override",
            override.service,
            f"override {override.id} of {override.service} ({override.words}, by {override.by}) has expired",
            {"override": override.id, "how": "expired"},
        )
        ended += 1
    for change in tx.foreign.due():
        tx.foreign.move(change.seq, came_from=ForeignState.HELD, to=ForeignState.LAPSED, by=ACTOR)
        _notice_end(
            tx,
            "foreign_change",
            change.service,
            f"{change.service} was {change.words} ({change.id}): the hold has ended, what is asked for is put back",
            {"change": change.id, "status": ForeignState.LAPSED.value},
        )
        ended += 1
    return ended


def _notice_end(tx: Tx, topic: str, subject: str, summary: str, detail: Mapping[str, str]) -> None:
    for each in (topic, "notice"):
        tx.journal.write(topic=each, actor=ACTOR, subject=subject, severity="warning", summary=summary, detail=detail)


def touched(tx: Tx, service: Service, observed: ObservedService) -> str | None:
    """Why a controller's action must not begin on this look: somebody else changed the service since we left it, and
    no pass has judged that yet.  None if nobody did."""
    before = tx.baselines.of(service.name)
    if before is None or service.substrate in SOLE_WRITER or service.mode is not Mode.LIVE:
        return None
    changes = changes_since(before, observed)
    if not changes:
        return None
    told = ", ".join(f"{one.field} {one.before} → {one.after}" for one in changes)
    return f"somebody else changed {service.name} a moment ago: {told}"


def remember_left(tx: Tx, record: OutboxRecord, to: OutboxState, outcome: Outcome, *, settled_by: str) -> None:
    """Keep what an action of ours left, so that what differs later is somebody else's.  Part of commit 2.

    Where the outcome does not say, the next look tells.
    """
    request = record.request
    begun = to is OutboxState.SUCCEEDED or (to is OutboxState.FAILED and outcome.code != "not_called")
    if not begun or request.substrate in SOLE_WRITER or request.dry_run or carried_out_elsewhere(request):
        return
    if to is OutboxState.SUCCEEDED and not settled_by:
        before = tx.baselines.of(request.target)
        tx.baselines.put(left_by(before, request.target, request.kind, request.params, tx.now()))
    else:
        tx.baselines.put(Baseline(service=request.target, at=tx.now()))
