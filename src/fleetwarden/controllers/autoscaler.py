"""The autoscaler: one tick over all elastic services, from evidence to intents.

It reads observations, signals, cooldowns and the latest intents, evaluates the whole fleet in columns, and puts an
intent for what wants to move.  It holds no actuator, cannot reach one, and never takes a count that it observed for one
that is wanted.  A service that is not scaled has a reason, whatever the reason is; one service's fault never ends the
tick for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from threading import Lock

import msgspec
import structlog

from fleetwarden.controllers.autoscaler_report import AutoscaleEvaluation, AutoscaleVerdict, ServiceEvaluation
from fleetwarden.controllers.autoscaler_rows import Rows, Told
from fleetwarden.controllers.autoscaler_sight import Declared, Sight, see
from fleetwarden.controllers.autoscaler_wishes import Mover, Movers
from fleetwarden.controllers.intent_desk import IntentDesk, Put, PutAnswer
from fleetwarden.controllers.missing_replicas import MissingWatch
from fleetwarden.controllers.open_questions import OpenQuestions
from fleetwarden.controllers.rollouts import rollouts_under_way
from fleetwarden.controllers.shadowing import Shadowing
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.health import trouble
from fleetwarden.domain.identifiers import Micros, plain
from fleetwarden.domain.signals import NoSample, Pair, Reading, SampleFault
from fleetwarden.domain.tracking import evaluate, new_memory
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Verdicts, Words, compile_blocks
from fleetwarden.domain.tracking_memory import Memory
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.ports.stores import Page, Store, Tx

__all__ = ["CADENCE", "Autoscaler"]

log = structlog.get_logger(__name__)
CADENCE = "fleet_autoscaler"
CHUNK = 64  # wishes that are put in one transaction
CHUNKS_MAX = 16  # and how many of these a tick tries, so that a fleet that all waits costs a bounded time
SIGNALS = "signals"


class Autoscaler:
    """Runs ticks.  `acting`: substrates that may act; elsewhere intents are dry runs.  `declared`: what each signal of
    a service is declared as; `max_age_s`: how long an accepted intent may wait; `skew_s`: how far ahead a ledger's
    time may lie before a cooldown counts as unknown."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        supervision: Supervision,
        desk: IntentDesk,
        provider: ScalingSignalProvider,
        *,
        declared: Declared,
        acting: frozenset[str],
        actions_max: int,
        max_age_s: float = 300.0,
        skew_s: float = 5.0,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._supervision = supervision
        self._desk = desk
        self.provider = provider
        self._declared = declared
        self._actions_max = actions_max
        self._max_age_s = max_age_s
        self._movers = Movers(store, acting, declared=declared, skew_s=skew_s)
        self._rows = Rows(store)
        self._questions = OpenQuestions(store, desk.patience)
        self.shadowing, self._missing = Shadowing(store), MissingWatch(store)
        self._lock = Lock()
        self._fleet: Fleet | None = None
        self._table: BlockTable = compile_blocks([])
        self._pairs: tuple[Pair, ...] = ()
        self._memory: Memory = new_memory(self._table)
        self._unbegun: set[int] = set()  # rows whose window has not begun
        self._token = 0  # of the lease under which what is remembered was counted
        self._after = ""  # fairness: the next tick begins behind the last service that was served
        self._since: Micros = 0  # executions up to here have consumed their streaks
        self._status = ""
        self._why = ""  # why the last tick evaluated nothing
        self.ticks = 0
        self.paused = False
        self.last: AutoscaleEvaluation | None = None
        self.counts: Counter[str] = Counter()  # services by reason, over all ticks: a metric

    def standing(self, name: str) -> ServiceEvaluation | None:
        """Where that service stood at the end of the last tick of this plane; None if it was not evaluated."""
        with self._lock:
            told, why = self._rows.told, self._why
        one = None if told is None else told.of(name)
        return one if one is None or not why else msgspec.structs.replace(one, code="not_ready", reason=why)

    def run(self, fence: LeaseFence) -> AutoscaleEvaluation:
        """One tick under the autoscaler's lease.  Raises Fenced, StoreUnavailable."""
        self.ticks += 1
        envelopes = self._supervision.envelopes()
        if self.paused or (why := trouble(envelopes.authorities())):
            told = "this plane is stopping" if self.paused else why
            return self._not_ready(envelopes.whole.generated_at, told, plain(envelopes.whole), fence)
        files = self._configuration.current()
        asked, rollouts = self._store.read(lambda tx: (as_asked(tx, files), rollouts_under_way(tx)))
        self._taken_over(fence)
        self._compile(files.fleet)
        self._desk.tend(fence, max_age_s=self._max_age_s)  # also where nothing follows load any more
        if not len(self._table):
            return self._keep(AutoscaleEvaluation(at=envelopes.whole.generated_at), fence)
        services = {name: one for name in self._table.names if (one := asked.fleet.services.get(name)) is not None}
        look = self._sightings.look(list(services.values()))
        seen = {name: one for name, one in look.seen.items() if not trouble(envelopes.of(services[name].substrate))}
        self._consume(look.at)
        answers = self._signals(look.at)
        sight = see(
            self._table,
            self._pairs,
            services,
            seen,
            answers,
            self._declared,
            rollouts,
            self._memory,
            look.at,
        )
        self._begin_windows(sight, look.at)
        verdicts = evaluate(self._table, sight.columns, self._memory, look.at)
        self.shadowing.note(self._table, services, sight.columns, verdicts, look.at, fence)
        self._missing.note(self._table, services, sight.columns, look.at, fence)
        self._questions.look(self._table, sight.columns, verdicts, look.at, fence)
        movers, puts, waiting = self._put(services, look, sight, verdicts, fence)
        return self._keep(self._report(look, sight, verdicts, movers, puts, waiting), fence)

    def _taken_over(self, fence: LeaseFence) -> None:
        """Forget what another plane knows better by now: who took the lease meanwhile counted samples of its own.

        A token that is higher by one is our own lease, lapsed and taken again, with nobody in between.
        """
        if fence.token > self._token + 1:
            self._fleet, self._since = None, 0
            self.shadowing.forget()
            self._missing.forget()
        self._token = fence.token

    def _begin_windows(self, sight: Sight, now: Micros) -> None:
        """A stabilization window of which nothing is remembered begins with the count that is there, as HPA's does:
        after a restart it can hold a count longer, and never let it go earlier."""
        status, current = sight.columns.status, sight.columns.current
        seen = {row: int(current[row]) for row in self._unbegun if status[row] != Words.UNOBSERVED}
        if seen:
            self._memory.put_earlier([(now, seen)])
            self._unbegun -= seen.keys()

    def _compile(self, fleet: Fleet) -> None:
        """The table of this configuration; what is remembered is carried over by name."""
        if fleet is self._fleet or fleet.error:
            return
        chosen = [(name, one.scaling) for name, one in sorted(fleet.services.items()) if one.scaling is not None]
        table = compile_blocks(chosen)
        memory = new_memory(table)
        pairs = tuple(
            Pair(service=table.names[int(row)], signal=signal)
            for row, signal in zip(table.pair_row, table.pair_signal, strict=True)
        )
        if self._fleet is None:
            self._rows.load(table, memory)
        else:
            places = {pair: number for number, pair in enumerate(pairs)}
            rows = {row: table.index[name] for row, name in enumerate(self._table.names) if name in table.index}
            moved = {number: places[pair] for number, pair in enumerate(self._pairs) if pair in places}
            memory.carry_over(self._memory, rows, moved, self._since)
        windowed = {table.names[int(row)] for row in memory.windowed}
        if self._fleet is not None:  # what was carried over goes on
            begun = {self._table.names[int(row)] for row in self._memory.windowed if int(row) not in self._unbegun}
            windowed -= begun
        self._unbegun = {table.index[name] for name in windowed}
        self._rows.forget_others(table.names)
        self._fleet, self._table, self._pairs, self._memory = fleet, table, pairs, memory

    def _consume(self, now: Micros) -> None:
        """A change that was really made consumes its streak, whoever asked for it."""
        since = self._since
        self._since = now
        if since == 0:
            return
        done = self._store.read(lambda tx: _scaled_since(tx, since))
        rows = {row: at for name, at in done.items() if (row := self._table.index.get(name)) is not None}
        self._memory.consume({row: self._table.pairs_of(row) for row in rows})
        for row, at in rows.items():
            self._memory.changed_at[row] = max(at, int(self._memory.changed_at[row]))

    def _signals(self, now: Micros) -> Mapping[Pair, Reading]:
        """One batch for the whole table.  A provider that fails leaves every pair without a sample, and says why."""
        try:
            answers = self.provider.signal_values(self._pairs, now)
        except FleetError as error:
            self._supervision.signals(now, str(error), error_class=type(error).__name__)
            return self._unanswered(str(error))
        except Exception as error:  # a provider may be anybody's code, and must not end the tick
            log.exception("signal provider failed", provider=self.provider.name)
            self._supervision.signals(now, f"{type(error).__name__}: {error}", error_class=type(error).__name__)
            return self._unanswered(f"{type(error).__name__}: {error}"[:300])
        self._supervision.signals(now, "")
        return answers

    def _unanswered(self, why: str) -> Mapping[Pair, Reading]:
        return {
            pair: NoSample(
                service=pair.service,
                signal=pair.signal,
                fault=SampleFault.SOURCE_FAILED,
                reason=why,
                source=self.provider.name,
            )
            for pair in self._pairs
        }

    def _put(
        self, services: Mapping[str, Service], look: Look, sight: Sight, verdicts: Verdicts, fence: LeaseFence
    ) -> tuple[dict[str, Mover], dict[str, Put], set[str]]:
        """Intents for what wants to move, in fair order, as far as this tick's budget goes; and who has to wait.

        Cooldowns and revisions are read as far as this comes: a fleet that moves as a whole costs no more than it may.
        """
        table, names = self._table, self._table.names
        rows = self._movers.ours(table, services, sight, verdicts)
        rows.sort(key=lambda row: (names[row] <= self._after, names[row]))
        movers: dict[str, Mover] = {}
        puts: dict[str, Put] = {}
        left, number = self._actions_max, 0
        most = max(CHUNK * CHUNKS_MAX, left)  # a raised budget is used up
        while left > 0 and number < len(rows) and len(puts) < most:
            chunk, number = rows[number : number + CHUNK], number + CHUNK
            found = self._movers.find(table, services, look, sight, verdicts, chunk)
            movers |= found
            wishes = self._movers.wishes(list(found.values()), look)
            for put in self._desk.put(wishes, fence=fence, most=left):
                puts[put.service] = put
                if put.answer is not PutAnswer.DEFERRED:  # whatever the answer was, it has had its turn
                    self._after = put.service
                left -= put.answer in (PutAnswer.ACCEPTED, PutAnswer.PROPOSED)
        waiting = {*movers, *(names[row] for row in rows[number:])} - puts.keys()
        return movers, puts, waiting

    def _report(
        self,
        look: Look,
        sight: Sight,
        verdicts: Verdicts,
        movers: Mapping[str, Mover],
        puts: Mapping[str, Put],
        waiting: Collection[str],
    ) -> AutoscaleEvaluation:
        told = Told(self._table, sight, verdicts, puts, self._movers.cooling, waiting, look.at)
        with self._lock:
            self._why = ""
        self._rows.note(told, verdicts)
        reasons = self._rows.counted(told, verdicts)
        self.counts.update(reasons)
        acted = (PutAnswer.ACCEPTED, PutAnswer.PROPOSED, PutAnswer.DENIED, PutAnswer.STALE)
        unasked = int((verdicts.reason == Reason.NOT_ASKED).sum())
        idle = ("prevented", Reason.NO_NEWS.code)
        skipped = sum(number for code, number in reasons.items() if code.startswith("skip_") or code in idle)
        return AutoscaleEvaluation(
            at=look.at,
            services=len(self._table),
            evaluated=len(self._table) - skipped - unasked,
            skipped=skipped,
            not_asked=unasked,
            reasons=reasons,
            verdicts=tuple(
                AutoscaleVerdict(
                    service=name,
                    answer=put.answer.value,
                    reason=put.reason,
                    current=movers[name].current,
                    desired=movers[name].desired,
                    intent="" if put.row is None else put.row.id,
                    decision="" if put.decision is None else put.decision.id,
                    approval="" if put.approval is None else put.approval.id,
                )
                for name, put in puts.items()
                if put.answer in acted
            ),
            deferred=len(waiting) + sum(one.answer is PutAnswer.DEFERRED for one in puts.values()),
        )

    def _not_ready(
        self, at: Micros, why: str, evidence: Mapping[str, object], fence: LeaseFence
    ) -> AutoscaleEvaluation:
        """Zero evaluations; every service says why."""
        with self._lock:
            self._why = why
        return self._keep(AutoscaleEvaluation(at=at, status="not_ready", evidence=evidence, problems=(why,)), fence)

    def _keep(self, report: AutoscaleEvaluation, fence: LeaseFence) -> AutoscaleEvaluation:
        """Store a report that says something new; a quiet tick writes nothing."""
        self.last = report
        if report.quiet and report.status == self._status:
            return report
        if report.status == self._status == "not_ready":
            return report
        self._status = report.status

        def run(tx: Tx) -> None:
            tx.leases.check(fence)
            tx.reports.append("autoscale", plain(report))

        self._store.transact("autoscale_report", run)
        log.info("tick", status=report.status, verdicts=len(report.verdicts), deferred=report.deferred)
        return report


def _scaled_since(tx: Tx, since: Micros) -> dict[str, Micros]:
    """Whose count was really changed since then, and when last, however many there are."""
    found: dict[str, Micros] = {}
    page = Page(kind="scale_service", since=since, limit=500)
    while done := tx.executions.list(page):
        for one in done:  # newest first
            if one.ok and not one.dry_run:
                found.setdefault(one.target, one.at)
        if len(done) < page.limit:
            break
        page = msgspec.structs.replace(page, before=done[-1].seq)
    return found
