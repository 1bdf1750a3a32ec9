"""The executor: the one place that changes the world.

It takes only `prepared` records, and for each: looks at the target, fences (commit 1), calls the actuator once, and
writes the outcome (commit 2).  No transaction is open during a call.  It never decides, never retries a call, and
never turns an unknown outcome into a failure.  What stops between the two commits is the recovery's, by evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

import msgspec
import structlog

from fleetwarden.controllers.capturing import Capturing, keep
from fleetwarden.controllers.dependencies import dependencies_of
from fleetwarden.controllers.intent_recheck import IntentLimits
from fleetwarden.controllers.recheck import CallPlan, Fate, Recheck, commit_one
from fleetwarden.controllers.settlement import end_record, outbox_end
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionRequest, Kind, LeaseFence, OutboxRecord, Outcome
from fleetwarden.domain.errors import Conflict, Fenced, FleetError, NotCalled, OutcomeUnknown, Retryable
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.actuation import ActuationCall, FleetActuator
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock

__all__ = ["CADENCE", "Executor", "ExecutorLimits", "Runner"]

log = structlog.get_logger(__name__)
CADENCE = "action_executor"
SHARD = "0"
COMMIT_TWO_TRIES = 5
WAIT_S = 1.0  # before a record that could not be begun is tried again

Runner = Callable[[Callable[[], None]], None]


class ExecutorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`fence_gap_max_s`: start window after commit 1 was sent; `lease_ttl_s`: how long the executor's lease lives
    without being extended; `watch_window_s`: how long a watch lasts that follows an action; `parallel_max`: calls in
    flight at once."""

    fence_gap_max_s: float = 2.0
    lease_ttl_s: float = 15.0
    watch_window_s: float = 300.0
    parallel_max: int = 8
    converge_s: float = 600.0  # how long an executed intent has until observers saw it hold
    intents: IntentLimits = IntentLimits()


class Executor:
    """Carries out prepared records.  `runner` runs one record's work: a thread pool, or inline in a simulation.

    `host`: only its records, and those that belong to no host, are taken; "" takes all.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        actuators: Mapping[str, FleetActuator],
        dry_run: FleetActuator,
        wakes: Wakes,
        runner: Runner,
        *,
        unready: Callable[[str], str | None],
        holder: str,
        limits: ExecutorLimits,
        host: str = "",
        capturing: Capturing | None = None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._actuators = dict(actuators)
        self._dry_run = dry_run
        self._wakes = wakes
        self._runner = runner
        self._unready = unready
        self._capturing = capturing or Capturing({})
        self._holder = holder
        self._host = host
        self.only_stops = False  # while this host's services are being stopped: another plane may ask to start them
        self._limits = limits
        self._lock = Lock()
        self._busy: set[int] = set()
        self._not_before: dict[int, float] = {}  # records that had to wait, and when each is tried again (monotonic)
        self._lost_token = 0  # the newest token under which a write was refused

    def executing(self) -> frozenset[int]:
        """Records that a thread of this plane is carrying out right now."""
        with self._lock:
            return frozenset(self._busy)

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        """Why no actuator of this plane would ever carry this out, or None; asked before anything is proposed."""
        actuator = self._actuators.get(service.substrate)
        if request.dry_run or actuator is None:
            return None
        if request.kind not in actuator.kinds:
            return f"{request.kind} is not served on {service.substrate or 'this substrate'}"
        return actuator.refusal(request, service)

    def run_prepared(self, fence: LeaseFence) -> int:
        """Begin prepared records that no thread has yet, oldest first; returns how many were handed to the runner.

        One that could not be begun is tried again after a second, so that it neither spins nor keeps the others from
        their turn.  Raises Fenced if a thread has found this very lease to be lost.
        """
        if fence.token <= self._lost_token:
            raise Fenced(f"the {fence.cadence} lease has moved on")
        prepared = self._store.read(lambda tx: tx.outbox.in_state(OutboxState.PREPARED))
        ready = [one for one in prepared if not self._host or one.host in ("", self._host)]
        if self.only_stops:
            ready = [one for one in ready if one.request.kind == Kind.STOP]
        now = self._clock.monotonic()
        chosen = []
        with self._lock:
            self._not_before = {one.seq: at for one in ready if (at := self._not_before.get(one.seq, 0.0)) > now}
            for record in ready:
                full = len(self._busy) >= self._limits.parallel_max
                if not full and record.seq not in self._busy and record.seq not in self._not_before:
                    self._busy.add(record.seq)
                    chosen.append(record)
        for record in chosen:
            self._runner(partial(self._guarded, record, fence))
        return len(chosen)

    def _guarded(self, record: OutboxRecord, fence: LeaseFence) -> None:
        """Nothing that goes wrong with one record may disturb another."""
        waits = True
        try:
            waits = self.execute(record, fence).fate is Fate.WAITS
        except Fenced as error:
            self._lost_token = max(self._lost_token, fence.token)
            log.warning("lease lost", action=record.id, error=str(error))
        except FleetError as error:
            log.error("action stopped", action=record.id, error=str(error))
        except Exception:  # an adapter's fault before commit 1: the record waits, and lapses if it goes on
            log.exception("action stopped", action=record.id)
        finally:
            with self._lock:
                was_full = len(self._busy) >= self._limits.parallel_max
                self._busy.discard(record.seq)
                if waits:
                    self._not_before[record.seq] = self._clock.monotonic() + WAIT_S
            if was_full:  # others may have been left waiting for this place
                self._wakes.wake(CADENCE)

    def execute(self, record: OutboxRecord, fence: LeaseFence) -> Recheck:
        """One record, from the last look to commit 2."""
        asked = self._store.read(lambda tx: as_asked(tx, self._configuration.current()))
        service = asked.fleet.services.get(record.request.target)
        actuator = self._actuator(record, service)
        plan = self._plan(record, service, actuator)
        self._extend(fence, plan)
        beside = {} if service is None else self._look_beside(service, asked.fleet.services)
        observed = None if service is None else self._sightings.look_at(service)
        captured = self._capturing.before(record, service)
        freeze_file = self._configuration.freeze_file()  # and once more right before the call
        sent = self._clock.monotonic()

        def check(tx: Tx) -> Recheck:
            tx.lock_admission(exclusive=True)  # before anything is read: what people asked for counts up to here
            begun = commit_one(
                tx,
                record.seq,
                fence=fence,
                service=service,
                observed=observed,
                plan=plan,
                configuration=as_asked(tx, self._configuration.current()),
                freeze_file=freeze_file,
                limits=self._limits.intents,
                beside=beside,
            )
            if begun.fate is Fate.RUNNING:
                keep(tx, record.seq, captured)
            return begun

        checked = self._store.transact("commit_1", check)
        if checked.fate is not Fate.RUNNING:
            log.info("action not begun", action=record.id, fate=checked.fate.value, reason=checked.reason)
            return checked
        assert checked.record is not None
        assert service is not None
        outcome = self._call(checked.record, service, observed, actuator, sent, plan)
        self._commit_two(checked.record, fence, outcome)
        return checked

    def _look_beside(self, service: Service, fleet: Mapping[str, Service]) -> Mapping[str, ObservedService]:
        """What the service depends on, as it is now; looked at first, so that the target's own look is the fresher."""
        needed = dependencies_of(service, fleet)
        return self._sightings.look(needed).seen if needed else {}

    def _actuator(self, record: OutboxRecord, service: Service | None) -> FleetActuator:
        if record.request.dry_run or service is None:
            return self._dry_run
        return self._actuators.get(service.substrate, self._dry_run)

    def _plan(self, record: OutboxRecord, service: Service | None, actuator: FleetActuator) -> CallPlan:
        request = record.request
        if service is None:
            return CallPlan(gap_us=0, deadline_us=0, lateness_us=0, final_if_acknowledged=True)
        refusal = actuator.refusal(request, service)
        if request.kind not in actuator.kinds:
            refusal = f"{request.kind} is not served on {service.substrate or 'this substrate'}"
        if actuator.simulates and not request.dry_run:
            refusal = f"nothing acts on {service.substrate or 'this substrate'} in this plane"
        return CallPlan(
            gap_us=int(self._limits.fence_gap_max_s * SECOND),
            deadline_us=int(actuator.deadline_s(request, service) * SECOND),
            lateness_us=None if actuator.lateness_s is None else int(actuator.lateness_s * SECOND),
            final_if_acknowledged=actuator.acknowledged_is_final,
            refusal=refusal,
            unready=self._unready(service.substrate),
        )

    def _extend(self, fence: LeaseFence, plan: CallPlan) -> None:
        """The lease must outlive the call: a long stop needs a longer lease than an idle pass."""
        ttl = max(int(self._limits.lease_ttl_s * SECOND), plan.gap_us * 2 + plan.deadline_us)
        held = self._store.transact(
            "extend_lease", lambda tx: tx.leases.acquire(fence.cadence, fence.shard, fence.holder, ttl)
        )
        if held is None or held.token != fence.token:
            raise Fenced(f"the {fence.cadence} lease has moved on")

    def _call(
        self,
        record: OutboxRecord,
        service: Service,
        observed: ObservedService | None,
        actuator: FleetActuator,
        sent: float,
        plan: CallPlan,
    ) -> Outcome:
        gap = self._clock.monotonic() - sent
        if gap >= self._limits.fence_gap_max_s:
            return _not_called(f"{gap:.1f} s passed since the fence, {self._limits.fence_gap_max_s} s are allowed")
        frozen = self._configuration.freeze_file()
        if frozen and not record.request.break_glass:
            return _not_called(f"a FREEZE file appeared: {frozen}")
        call = ActuationCall(
            key=record.key,
            request=record.request,
            service=service,
            observed=observed,
            deadline=self._clock.monotonic() + plan.deadline_us / SECOND,
        )
        try:
            return actuator.actuate(call)
        except NotCalled as error:
            return _not_called(str(error))
        except Exception as error:  # whatever it was, the effect may have happened
            log.exception("outcome unknown", action=record.id)
            told = f"{type(error).__name__}: {error}"
            return Outcome(ok=False, unknown_outcome=True, code="exception", detail=told[:2000])

    def _commit_two(self, record: OutboxRecord, fence: LeaseFence, outcome: Outcome) -> None:
        """Write the outcome.  If it cannot be written the record stays running, and the recovery marks it."""

        def run(tx: Tx) -> None:
            tx.leases.check(fence)
            end_record(
                tx,
                record,
                outbox_end(outcome),
                outcome,
                watch_window_s=self._limits.watch_window_s,
                watch_scale_down=self._configuration.current().policy.options.watch_scale_down,
                converge_s=self._limits.converge_s,
            )
            if outcome.ok:
                tx.after_commit(self._wakes.waker("fleet_reconciler"))

        for attempt in range(1, COMMIT_TWO_TRIES + 1):
            try:
                self._store.transact("commit_2", run)
            except OutcomeUnknown:
                if self._store.read(lambda tx: tx.outbox.get(record.seq)).state is not OutboxState.RUNNING:
                    return
            except Retryable:
                if attempt == COMMIT_TWO_TRIES:
                    raise
            except Conflict as error:
                log.warning("outcome arrived late", action=record.id, error=str(error))
                return
            else:
                return
            self._clock.wait(self._wakes.event("never"), 0.05 * 2**attempt)


def _not_called(why: str) -> Outcome:
    return Outcome(ok=False, code="not_called", detail=f"not begun: {why}")
