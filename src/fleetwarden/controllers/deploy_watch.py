"""Watches, carried on step by step: look, judge, wait for the next look, until the recorded deadline.

A step is a row of work, so that ten thousand watches cost rows and no threads, and whoever comes after a crash goes on
in the original window: a deadline that has passed meanwhile is judged by one look.  All steps that are due share one
look at the fleet and one transaction.  What a failure proposes is a step of its own; nothing is ever done here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.watch_again import came_to_nothing
from fleetwarden.controllers.watch_ending import PENDING, Followed, end_watch, tell
from fleetwarden.controllers.watch_opening import WORK_KIND
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.controllers.worker import Step, put_off
from fleetwarden.domain import versions
from fleetwarden.domain.actions import LeaseFence, Record
from fleetwarden.domain.deploy_watch import DeployWatch, Probe, Sight, WatchStatus, with_probe
from fleetwarden.domain.deploy_watch_verdict import Verdict, checked, look, verdict
from fleetwarden.domain.errors import FleetError, StoreUnavailable
from fleetwarden.domain.fleet import Fleet, ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signals import Pair, Reading
from fleetwarden.domain.watch_block import WatchBlock
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.ports.stores import Store, Tx, WorkItem
from fleetwarden.ports.watches import Tally

__all__ = ["BATCH_MAX", "CADENCE", "WORK_KIND", "DeployWatches", "Terms"]

log = structlog.get_logger(__name__)
CADENCE = "deploy_watch"
BATCH_MAX = 1_000  # steps of one look and one transaction
ROUNDS_MAX = 20  # batches of one pass: the next pass goes on
_AS_DECLARED = WatchBlock()
SEVERAL = ", "  # between the versions of a mixture

FollowUp = Callable[[DeployWatch, LeaseFence], Step]
Values = Mapping[str, Mapping[str, Reading]]


class Terms(Record):
    """What holds where a service's block says nothing, in seconds."""

    window_s: float = 300.0
    poll_s: float = 15.0
    grace_s: float = 15.0


class DeployWatches:
    """`follow_up`: what is done once about a failed watch, as a step.  `lease_s`: longer than any batch may take."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        signals: ScalingSignalProvider | None,
        follow_up: FollowUp,
        *,
        holder: str,
        lease_s: float,
        terms: Terms | None = None,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._signals = signals
        self._follow_up = follow_up
        self._holder = holder
        self._lease_us = int(lease_s * SECOND)
        self._terms = terms or Terms()

    def run(self, fence: LeaseFence) -> int:
        """Do every step that is due; returns how many.  With nothing due it only reads.  Raises StoreUnavailable."""
        done = 0
        for _ in range(ROUNDS_MAX):
            due, now = self._store.read(lambda tx: (tx.work.next_due([WORK_KIND]), tx.now()))
            if due is None or due > now:
                break
            items = self._store.transact(
                "claim_watches", lambda tx: tx.work.claim(self._holder, [WORK_KIND], self._lease_us, BATCH_MAX)
            )
            if not items:
                break
            lost = [one for one in items if one.attempts > one.max_attempts]
            for one in lost:  # their earlier holders died with them: they must not take us down for ever
                self._put_off(one, "whoever carried it out never came back")
            self._batch([one for one in items if one not in lost] if lost else items, fence)
            done += len(items)
            if len(items) < BATCH_MAX:
                break
        return done

    def _batch(self, items: Sequence[WorkItem], fence: LeaseFence) -> None:
        if not items:
            return
        try:
            follow = self._step(items, fence)
        except StoreUnavailable:
            raise  # their leases lapse, and they are claimed again
        except Exception as error:  # one that cannot be done must not keep the others from their turn
            if len(items) > 1:
                log.warning("a batch of watches is done one by one", error=str(error))
                for item in items:
                    self._batch([item], fence)
                return
            if not isinstance(error, FleetError):
                log.exception("watch step failed", work=items[0].seq)
            self._put_off(items[0], str(error) or type(error).__name__)
            return
        for item, watch in follow:
            self._follow(item, watch, fence)

    def _step(self, items: Sequence[WorkItem], fence: LeaseFence) -> list[tuple[WorkItem, DeployWatch]]:
        """One look and one transaction for all of these; returns those whose failure is to be followed up."""
        known = {seq for item in items if (seq := _watch_seq(item)) is not None}
        watches, fleet = self._store.read(
            lambda tx: (tx.watches.these(sorted(known)), as_asked(tx, self._configuration.current()).last_good_fleet)
        )
        running = [one for one in watches.values() if one.status is WatchStatus.RUNNING]
        services = [fleet.services[name] for name in sorted({one.service for one in running} & fleet.services.keys())]
        taken = self._sightings.look(services) if services else None
        seen: Mapping[str, ObservedService] = {} if taken is None else taken.seen
        values = self._values(services, None if taken is None else taken.at)

        def run(tx: Tx) -> list[tuple[WorkItem, DeployWatch]]:
            tx.leases.check(fence)
            fresh = tx.watches.these(sorted(known))
            batch = _Batch(tx, fleet, seen, values, self._terms)
            return batch.run(items, fresh)

        return self._store.transact("watch_steps", run)

    def _values(self, services: Sequence[Service], at: Micros | None) -> Values:
        """The signals that blocks check, asked for once.  A source that fails leaves its checks unjudged."""
        pairs = [
            Pair(service=one.name, signal=check.signal)
            for one in services
            for check in (one.watch.checks if one.watch is not None else ())
        ]
        found: dict[str, dict[str, Reading]] = defaultdict(dict)
        if not pairs or self._signals is None or at is None:
            return found
        try:
            answers = self._signals.signal_values(pairs, at)
        except FleetError as error:
            log.warning("the signals of watches cannot be read", error=str(error))
            return found
        except Exception:  # a provider may be anybody's code, and must not end the pass
            log.exception("signal provider failed", provider=self._signals.name)
            return found
        for pair, reading in answers.items():
            found[pair.service][pair.signal] = reading
        return found

    def _follow(self, item: WorkItem, watch: DeployWatch, fence: LeaseFence) -> None:
        try:
            step = self._follow_up(watch, fence)
        except StoreUnavailable:
            raise
        except FleetError as error:
            self._put_off(item, str(error))
            return

        def run(tx: Tx) -> None:
            left_to = step.action if isinstance(step, Followed) else 0
            if left_to and came_to_nothing(tx.outbox.get(left_to)):  # before this could be written down
                tx.work.again(item.seq, item.token, not_before=tx.now(), error=step.note, count=False)
            elif step.after_s is None:
                tx.watches.followed(watch.seq, step.note)
                if isinstance(step, Followed) and step.told:
                    tell(tx, watch, step.severity, step.told)
                tx.work.complete(item.seq, item.token, {"status": watch.status.value, "note": step.note})
            else:
                due = tx.now() + int(step.after_s * SECOND)
                tx.work.again(item.seq, item.token, not_before=due, error=step.note, count=False)

        self._store.transact("watch_followed", run)

    def _put_off(self, item: WorkItem, error: str) -> None:
        """A failed step is tried again later; one that is given up ends its watch honestly."""

        def run(tx: Tx) -> None:
            if put_off(tx, item, error):
                return
            watch = tx.watches.these([seq]).get(seq) if (seq := _watch_seq(item)) is not None else None
            if watch is not None and watch.status is WatchStatus.RUNNING:
                end_watch(tx, watch, Verdict(status=WatchStatus.UNOBSERVED, reason=f"its steps failed: {error}"))

        self._store.transact("watch_put_off", run)


class _Batch:
    """One transaction's steps."""

    def __init__(self, tx: Tx, fleet: Fleet, seen: Mapping[str, ObservedService], values: Values, terms: Terms) -> None:
        self._tx = tx
        self._now = tx.now()
        self._fleet = fleet
        self._seen = seen
        self._values = values
        self._terms = terms
        self._next: dict[Micros, dict[int, int]] = defaultdict(dict)
        self._same: dict[tuple[bool, bool], list[int]] = defaultdict(list)

    def run(self, items: Sequence[WorkItem], watches: Mapping[int, DeployWatch]) -> list[tuple[WorkItem, DeployWatch]]:
        follow = []
        for item in items:
            watch = watches.get(_watch_seq(item) or 0)
            if watch is None:
                self._done(item, "unobserved", "its watch is not on record")
            elif watch.status is WatchStatus.FAILED and watch.follow_up == PENDING:
                follow.append((item, watch))
            elif watch.status is not WatchStatus.RUNNING:
                self._done(item, watch.status.value, watch.reason)
            elif (ended := self._one(item, watch)) is not None:
                follow.append((item, ended))
        for (usable, healthy), seqs in self._same.items():
            self._tx.watches.tally(Tally(seqs=tuple(seqs), usable=usable, healthy=healthy))
        for due, held in self._next.items():
            self._tx.work.again_each(held, not_before=due)
        return follow

    def _one(self, item: WorkItem, watch: DeployWatch) -> DeployWatch | None:
        """One step of a running watch; returns it if it failed and something is to follow."""
        service = self._fleet.services.get(watch.service)
        now = self._now
        adopted = watch if watch.poll else self._adopted(watch, service)
        first = adopted is not watch
        if first and now < adopted.deadline:
            self._tx.watches.change(adopted)
            self._later(item, adopted)
            return None
        checks = service.watch.checks if service is not None and service.watch is not None else ()
        probe = look(adopted, self._seen.get(watch.service), now)
        if not adopted.version and probe.version and SEVERAL not in probe.version:
            adopted = _of_version(adopted, service, probe.version)
        probe, judged = checked(adopted, probe, checks, self._values.get(watch.service, {}))
        last = adopted.probes[-1] if adopted.probes else None
        new = last is None or not _same(last, probe) or judged != adopted.judged
        after = _counted(adopted, probe, judged, changed=last is None or not _same(last, probe))
        ends = verdict(after, now, checks)
        if ends is not None:
            ended = end_watch(self._tx, after, ends)
            if ended.follow_up == PENDING:
                return ended
            self._done(item, ended.status.value, ended.reason)
            return None
        if new or first:
            self._tx.watches.change(after)
        else:
            self._same[probe.sight.usable, probe.sight is Sight.HEALTHY].append(watch.seq)
        self._later(item, after)
        return None

    def _later(self, item: WorkItem, watch: DeployWatch) -> None:
        self._next[min(self._now + watch.poll, max(watch.deadline, self._now))][item.seq] = item.token

    def _done(self, item: WorkItem, status: str, note: str) -> None:
        self._tx.work.complete(item.seq, item.token, {"status": status, "note": note, "service": item.target})

    def _adopted(self, watch: DeployWatch, service: Service | None) -> DeployWatch:
        """The watch under its service's own terms: only the first step asks for them, so that they stay recorded."""
        block = _AS_DECLARED if service is None or service.watch is None else service.watch
        terms = self._terms
        window = watch.deadline - watch.settled
        if block.window_s is not None:
            window = int(block.window_s * SECOND)
        poll = int((terms.poll_s if block.poll_s is None else block.poll_s) * SECOND)
        grace = int(terms.grace_s * SECOND) if block.grace_s is None else int(block.grace_s * SECOND)
        inherited = watch.changes_version and watch.kind not in versions.ROLLOUTS and watch.action_seq is not None
        settling = watch.settled + min(grace, window // 2)
        return msgspec.structs.replace(
            watch,
            deadline=max(watch.settled + window, watch.deadline) if inherited else watch.settled + window,
            grace_until=min(watch.grace_until, settling) if inherited else settling,
            poll=max(poll, 1),
            definition="" if service is None else versions.definition(service, watch.version),
        )


def _of_version(watch: DeployWatch, service: Service | None, version: str) -> DeployWatch:
    """The watch of what was first seen to run, where the action did not say what it starts."""
    made_from = "" if service is None else versions.definition(service, version)
    return msgspec.structs.replace(watch, version=version, definition=made_from)


def _watch_seq(item: WorkItem) -> int | None:
    seq = item.payload.get("watch")
    return seq if type(seq) is int else None


def _same(one: Probe, other: Probe) -> bool:
    """Whether two looks say the same, but for their time."""
    return (one.sight, one.ready, one.total, one.version, one.detail) == (
        other.sight,
        other.ready,
        other.total,
        other.version,
        other.detail,
    )


def _counted(watch: DeployWatch, probe: Probe, judged: tuple[str, ...], *, changed: bool) -> DeployWatch:
    return msgspec.structs.replace(
        watch,
        made=watch.made + 1,
        usable=watch.usable + probe.sight.usable,
        healthy=watch.healthy + (probe.sight is Sight.HEALTHY),
        last_at=probe.at,
        probes=with_probe(watch.probes, probe) if changed else watch.probes,
        judged=judged,
    )
