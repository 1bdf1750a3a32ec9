"""Telling people about services that are down and stay down because their repair is held up.

Denied, waiting for an approval, frozen, refused, held back after failures: each is a right answer, and together with a
service that is down it is news after some minutes.  It is told once, with the reason and the command that releases it,
again every four hours, and once more when it is over.  What is told stands in the store, so that a restart or another
leader neither repeats nor forgets it.  It reads where the reconciler left each service and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from fleetwarden.controllers.gate import Answer
from fleetwarden.controllers.reconciler import Standing
from fleetwarden.controllers.restraint import BACKING_OFF, REJECTED
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.fleet import DesiredState, Mode, ObservedService, Service, ServiceStatus
from fleetwarden.domain.freezing import covers
from fleetwarden.domain.identifiers import SECOND, Micros, rfc3339
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.notices import BlockedRow
from fleetwarden.ports.stores import Store, Tx

__all__ = ["AGAIN_AFTER", "CADENCE", "INCIDENT", "BlockedRepairs"]

CADENCE = "blocked_repairs"
INCIDENT = "blocked_repair"
AGAIN_AFTER: Final[Micros] = 4 * 3600 * SECOND
SINGLY_MAX = 5  # more than these at once are one notice
NAMED_MAX = 20
_HELD_UP = frozenset(
    {
        Answer.DENIED.value,
        Answer.REPEATED.value,
        Answer.QUEUED.value,
        Answer.WAITING.value,
        BACKING_OFF,
        REJECTED,
        "version_quarantined",
        "waits_for",
        "refused",
        "not_ready",
        "foreign_held",
        "foreign_paused",
    }
)


class _Due(msgspec.Struct, frozen=True):
    """What one look found: rows to write, rows that are over, and what is to be told of either."""

    rows: tuple[BlockedRow, ...]
    told: tuple[BlockedRow, ...]
    over: tuple[BlockedRow, ...]


class BlockedRepairs:
    """`standings`: where the last pass left each service; `seen`: what was last seen; `lease`: the reconciler's, None
    while another plane holds it; `after`: how long a repair is held up before people are told."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        *,
        standings: Callable[[], Mapping[str, Standing]],
        seen: Callable[[], Mapping[str, ObservedService]],
        lease: Callable[[], LeaseFence | None],
        after: Micros,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._standings = standings
        self._seen = seen
        self._lease = lease
        self._after = after

    def run(self) -> int:
        """One look; returns how many notices it wrote.  Raises StoreUnavailable; Fenced once the lease is lost."""
        fence = self._lease()
        configuration = self._configuration.current()
        if fence is None or configuration.fleet.error:
            return 0
        services, standings, seen = configuration.fleet.services, self._standings(), self._seen()
        due = self._store.read(lambda tx: self._due(tx, services, standings, seen))
        if not (due.rows or due.over):
            return 0
        return self._store.transact("blocked_repairs", partial(_write, fence, due, standings, services))

    def _due(
        self,
        tx: Tx,
        services: Mapping[str, Service],
        standings: Mapping[str, Standing],
        seen: Mapping[str, ObservedService],
    ) -> _Due:
        now, known = tx.now(), tx.blocked.all()
        unknown = {one.request.target: one.id for one in tx.outbox.in_state(OutboxState.RECOVERY_PENDING)}
        rows, told, over = list[BlockedRow](), list[BlockedRow](), list[BlockedRow]()
        for name, service in services.items():
            row, one, standing = known.get(name), seen.get(name), standings.get(name)
            down = one is not None and one.status is ServiceStatus.DOWN
            if not _ours(service) or (one is not None and one.status is ServiceStatus.UP):
                over += [] if row is None else [row]
            elif down and standing is not None and _held_up(standing, name in unknown):
                fresh = self._judged(row, name, standing, now)
                rows += [] if fresh == row else [fresh]
                told += [fresh] if fresh.told_at == now else []
            elif row is not None and row.told_at is None and down and standing is not None:
                over.append(row)  # its repair goes ahead, and nobody was told
        over += [row for name, row in known.items() if name not in services]
        return _Due(rows=tuple(rows), told=tuple(told), over=tuple(over))

    def _judged(self, row: BlockedRow | None, name: str, standing: Standing, now: Micros) -> BlockedRow:
        if row is None:
            row = BlockedRow(service=name, since=min(standing.at or now, now), code=standing.code, reason="")
        late = now - row.since >= self._after if row.told_at is None else now - row.told_at >= AGAIN_AFTER
        if not late:
            return row
        return msgspec.structs.replace(
            row, code=standing.code, reason=standing.reason, told_at=now, times=row.times + 1
        )


def _ours(service: Service) -> bool:
    """Whether somebody wants it repaired by us at all."""
    return service.desired is DesiredState.RUNNING and service.mode is not Mode.OBSERVE


def _held_up(standing: Standing, unknown: bool) -> bool:
    return standing.code in _HELD_UP or (unknown and standing.code == Answer.BUSY.value)


def _write(
    fence: LeaseFence, due: _Due, standings: Mapping[str, Standing], services: Mapping[str, Service], tx: Tx
) -> int:
    tx.leases.check(fence)
    now = tx.now()
    for row in due.rows:
        # the time of the look is the transaction's that read; what was told is dated by the one that writes
        tx.blocked.put(row if row not in due.told else msgspec.structs.replace(row, told_at=now))
    tx.blocked.forget([one.service for one in due.over])
    ended = [one for one in due.over if one.told_at is not None]
    singly = due.told if len(due.told) <= SINGLY_MAX else ()
    commands = [_release(tx, row, standings[row.service], services[row.service].group) for row in singly]
    return _tell(tx, due.told, commands, now) + _close(tx, ended, now)


def _tell(tx: Tx, told: Sequence[BlockedRow], commands: Sequence[str], now: Micros) -> int:
    if len(told) <= SINGLY_MAX:
        for row, command in zip(told, commands, strict=True):
            text = (
                f"{row.service} is down and its repair is held up for {_minutes(now - row.since)}: {row.reason}. "
                f"What releases it: {command}"
            )
            _notice(tx, "critical", row.service, text, [row], command=command)
        return len(told)
    text = (
        f"{len(told)} services are down and their repair is held up: {_names(told)}. "
        "Why, and what releases them: fleetwarden status; fleetwarden explain SERVICE"
    )
    _notice(tx, "critical", "", text, told, command="fleetwarden status")
    return 1


def _close(tx: Tx, ended: Sequence[BlockedRow], now: Micros) -> int:
    if len(ended) <= SINGLY_MAX:
        for row in ended:
            text = f"{row.service} is no longer down with its repair held up; that lasted {_minutes(now - row.since)}"
            _notice(tx, "info", row.service, text, [row], closed=True)
        return len(ended)
    text = f"{len(ended)} services are no longer down with their repair held up: {_names(ended)}"
    _notice(tx, "info", "", text, ended, closed=True)
    return 1


def _notice(
    tx: Tx,
    severity: str,
    subject: str,
    summary: str,
    rows: Sequence[BlockedRow],
    *,
    command: str = "",
    closed: bool = False,
) -> None:
    tx.journal.write(
        topic="notice",
        actor="reconciler",
        subject=subject,
        severity=severity,
        summary=summary,
        detail={
            "incident": INCIDENT,
            "closed": closed,
            "services": [one.service for one in rows],
            "since": rfc3339(min(one.since for one in rows)),
            "times": max(one.times for one in rows),
            "code": rows[0].code if len(rows) == 1 else "several",
            "command": command,
        },
    )


def _release(tx: Tx, row: BlockedRow, standing: Standing, group: str) -> str:
    """The command that lets the repair go on, as exactly as can be said."""
    name, code = row.service, row.code
    waiting = [one for one in tx.approvals.open_of(name) if one.status is ApprovalState.PENDING]
    if code in (Answer.QUEUED.value, Answer.WAITING.value) and waiting:
        return f"fleetwarden approvals grant {waiting[0].id}"
    if "FREEZE" in standing.reason:
        return "remove the FREEZE file"
    if "frozen" in standing.reason:
        return _thaw(tx, name, group, standing.kind)
    if "a storm since" in standing.reason:
        return "fleetwarden storm clear --reason …"
    if code == "version_quarantined":
        return f"fleetwarden quarantine clear {name} --reason …"
    if code == Answer.BUSY.value:
        record = tx.outbox.open_of(name)
        return "fleetwarden recover list" if record is None else f"fleetwarden recover settle {record.id} --as …"
    if code == "not_ready":
        return "fleetwarden doctor"
    if "forbidden" in standing.reason:
        return f"fleetwarden policy explain {standing.kind} {name}"
    if code in (Answer.DENIED.value, Answer.REPEATED.value, BACKING_OFF, REJECTED) and standing.kind:
        return f"fleetwarden action propose {standing.kind} {name} --reason …"
    return f"fleetwarden explain {name}"


def _thaw(tx: Tx, service: str, group: str, kind: str) -> str:
    """The command that ends the one freeze that holds it and no other; where several do, they are to be looked at."""
    active = tx.freezes.active()
    holding = [one for one in active if covers(one.scope, one.value, kind=kind, target=service, group=group)]
    restored = {one.freeze_seq for one in tx.epochs.holding()}
    if any(one.seq in restored for one in holding):
        return "fleetwarden db release --reason …"
    if len(holding) > 1:
        return "fleetwarden freeze status"
    scoped = [f" --{one.scope} {one.value}" for one in holding if one.value]
    return f"fleetwarden freeze off{''.join(scoped)}"


def _names(rows: Sequence[BlockedRow]) -> str:
    named = ", ".join(one.service for one in rows[:NAMED_MAX])
    return named + (f" and {len(rows) - NAMED_MAX} more" if len(rows) > NAMED_MAX else "")


def _minutes(span: Micros) -> str:
    whole = int(span // (60 * SECOND))
    if not whole:
        return f"{int(span // SECOND)} s"
    return f"{whole} min" if whole < 120 else f"{whole // 60} h"
