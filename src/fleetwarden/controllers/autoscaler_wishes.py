"""From verdicts to wishes: the services that want another count, held by their cooldowns, as requests.

Only what wants to move is looked at here, so that a quiet fleet costs nothing.  What follows load is asked for in the
autoscaler's name, bound to the service as it is declared and to what was seen and measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.controllers.autoscaler_sight import Declared, Sight
from fleetwarden.controllers.intent_desk import Wanted
from fleetwarden.controllers.sightings import Look
from fleetwarden.controllers.signal_evidence import Evidences
from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, Record, Source
from fleetwarden.domain.contract.lifecycle import SignalSummaryRef
from fleetwarden.domain.convergence import facts, identity
from fleetwarden.domain.cooldown import CooldownState, CooldownView, cooldown
from fleetwarden.domain.fleet import Mode, Service
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, digest, seconds
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.recommendation import with_rates
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.signals import Reading, Sample
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Verdicts
from fleetwarden.ports.stores import Page, Store, Tx

__all__ = ["Mover", "Movers"]

PERIOD_MAX: Micros = 1800 * SECOND  # the longest period of `behavior`


class Mover(Record):
    """One service that wants another count."""

    service: Service
    row: int
    current: int
    desired: int
    reason: str
    readings: tuple[Reading, ...]
    targets: tuple[float, ...]


class Movers:
    """Finds what moves, and makes wishes of it.  `declared`: what each signal of a service is declared as."""

    def __init__(
        self,
        store: Store,
        acting: frozenset[str],
        *,
        declared: Declared = lambda _service, _signal: None,
        skew_s: float = 5.0,
    ) -> None:
        self._store = store
        self._acting = acting
        self._declared = declared
        self._skew_s = skew_s
        self.cooling: dict[str, CooldownView] = {}  # of the last tick, for people

    def ours(self, table: BlockTable, services: Mapping[str, Service], sight: Sight, verdicts: Verdicts) -> list[int]:
        """The rows that want another count, of services whose count is ours to write; the others' reasons are set."""
        self.cooling = {}
        chosen = []
        for row in map(int, verdicts.moving()):
            service = services[table.names[row]]
            if service.mode is Mode.OBSERVE or table.blocks[row].controller_mode != NATIVE:
                _hold(verdicts, sight, row, Reason.EXTERNAL)
            else:
                chosen.append(row)
        return chosen

    def find(
        self,
        table: BlockTable,
        services: Mapping[str, Service],
        look: Look,
        sight: Sight,
        verdicts: Verdicts,
        chosen: Sequence[int],
    ) -> dict[str, Mover]:
        """Of these rows the services that may have another count by their own rules; the others' reasons are set."""
        if not chosen:
            return {}
        names = [table.names[row] for row in chosen]
        behaved = [table.names[row] for row in chosen if table.with_behavior[row]]
        last, unsettled, changes = self._store.read(lambda tx: _ledger(tx, names, behaved, look.at))
        found: dict[str, Mover] = {}
        for row in chosen:
            name, block = table.names[row], table.blocks[row]
            current, desired = int(sight.columns.current[row]), int(verdicts.desired[row])
            pause = cooldown(
                last.get(name),
                look.at,
                block.cooldown_s(up=desired > current),
                unsettled=unsettled.get(name, ""),
                skew_s=self._skew_s,
            )
            if pause.state is not CooldownState.OVER:
                running = pause.state is CooldownState.RUNNING
                self.cooling[name] = pause
                _hold(verdicts, sight, row, Reason.SKIP_COOLDOWN if running else Reason.SKIP_UNKNOWN_COOLDOWN)
                continue
            reason = Reason(int(verdicts.reason[row]))
            desired, reason = with_rates(block, current, desired, reason, changes.get(name, ()))
            verdicts.desired[row], verdicts.reason[row] = desired, reason
            if desired == current:
                continue
            found[name] = Mover(
                service=services[name],
                row=row,
                current=current,
                desired=desired,
                reason=reason.code,
                readings=tuple(sight.of(table, row)),
                targets=tuple(one.target for one in block.signals),
            )
        return found

    def wishes(self, movers: Sequence[Mover], look: Look) -> list[Wanted]:
        """The wishes of these services, each on the revision that is the latest now."""
        names = [one.service.name for one in movers]
        latest = self._store.read(lambda tx: tx.intents.latest_of(names))
        evidences = Evidences(self._declared, look.at)
        return [
            self._wish(
                one, look, evidences, 0 if (row := latest.get(one.service.name)) is None else row.intent.revision
            )
            for one in movers
        ]

    def _wish(self, mover: Mover, look: Look, evidences: Evidences, revision: int) -> Wanted:
        service, up = mover.service, mover.desired > mover.current
        summary = _summary(mover)
        block = service.scaling
        assert block is not None
        told = _reason(mover)
        seen = look.seen[service.name]
        summary_digest = digest(summary)
        evidence = evidences.of(service.name, mover.readings, summary_digest)
        scaling: dict[str, JsonValue] = {
            "from_replicas": mover.current,
            "signals": summary,
            "raw_reason": mover.reason,
            "evidence": evidence.graph_projection(),
        }
        request = ActionRequest(
            kind=Kind.SCALE,
            target=service.name,
            params={"replicas": mover.desired},
            source=Source.AUTOSCALER,
            requested_by="autoscaler",
            reason=told,
            key="",
            group=service.group,
            substrate=service.substrate,
            direction="up" if up else "down",
            identity=identity(service),
            dry_run=service.mode is Mode.DRY_RUN or service.substrate not in self._acting,
            evidence=Evidence(observed_at=seen.observed_at, reason=told, facts={**facts(seen), "scaling": scaling}),
        )
        times = [one.observed_at for one in mover.readings if isinstance(one, Sample)] or [look.at]
        return Wanted(
            service=service,
            expected_revision=revision,
            desired=mover.desired,
            observed=mover.current,
            signal=SignalSummaryRef(
                digest=summary_digest, window_start=min(times), window_end=max(times), signals=len(times)
            ),
            request=request,
            cooldown_s=block.cooldown_s(up=up),
            query_text=evidence.text,
        )


def _ledger(
    tx: Tx, names: Sequence[str], behaved: Sequence[str], now: Micros
) -> tuple[Mapping[str, Micros], Mapping[str, str], Mapping[str, list[tuple[float, int]]]]:
    """Cooldowns' times, unsettled actions, and for `behavior` the changes of its longest period."""
    unknown = {
        one.request.target: one.id
        for one in tx.outbox.in_state(OutboxState.RECOVERY_PENDING)
        if one.request.kind == Kind.SCALE
    }
    changes: dict[str, list[tuple[float, int]]] = {}
    for name in behaved:
        done = tx.executions.list(Page(kind=Kind.SCALE, target=name, since=now - PERIOD_MAX, limit=500))
        made = {one.action_seq: one.at for one in done if one.ok and not one.dry_run}
        changes[name] = [
            (seconds(now - at), row.intent.desired_replicas - row.intent.observed_replicas)
            for action, at in made.items()
            if (row := tx.intents.by_action(action)) is not None  # whatever became of it: the change was made
        ]
    return tx.cooldowns.last_scales(names), unknown, changes


def _hold(verdicts: Verdicts, sight: Sight, row: int, reason: Reason) -> None:
    verdicts.reason[row] = reason
    verdicts.desired[row] = sight.columns.current[row]


def _summary(mover: Mover) -> list[dict[str, JsonValue]]:
    """What the signals said, bounded: values and times, never a query."""
    return [
        {
            "signal": one.signal,
            "value": one.value,
            "target": target,
            "aggregation": one.aggregation.value,
            "unit": one.unit,
            "observed_at": one.observed_at,
            "source": one.source,
        }
        for one, target in zip(mover.readings, mover.targets, strict=True)
        if isinstance(one, Sample)
    ]


def _reason(mover: Mover) -> str:
    told = [
        f"{one.signal} {one.value:g} {one.unit} ({one.aggregation.value}, target {target:g})"
        for one, target in zip(mover.readings, mover.targets, strict=True)
        if isinstance(one, Sample)
    ]
    return f"{mover.current} → {mover.desired} replicas: {', '.join(told)}"
