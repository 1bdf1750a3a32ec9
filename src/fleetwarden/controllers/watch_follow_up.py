"""What a failed watch leads to: a rollback or the count from before, each proposed once through its own gate.

The key of a proposal is the watch's, so that whoever does this step again after a crash asks for the same thing.  Where
there is nothing to go back to, or policy says no, people are told and nothing else is done.  It holds no actuator.
"""

from __future__ import annotations

from collections.abc import Callable

from fleetwarden.controllers.gate import Admission, Answer, Gate, rule_on
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.intent_putting import Put, PutAnswer, Wanted
from fleetwarden.controllers.reconciler import request_for
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.verified_versions import known_versions
from fleetwarden.controllers.watch_again import ATTEMPTS_MAX, key_of_attempt
from fleetwarden.controllers.watch_ending import Followed, watched_words
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.controllers.worker import Step
from fleetwarden.domain import versions
from fleetwarden.domain.actions import ActionRequest, Kind, LeaseFence, Source, Verdict
from fleetwarden.domain.contract.lifecycle import IntentOperation, SignalSummaryRef
from fleetwarden.domain.convergence import Need
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail
from fleetwarden.domain.fleet import Mode, ObservedService, Presence, Service
from fleetwarden.domain.identifiers import SECOND, Micros, digest, seconds
from fleetwarden.domain.outside import LASTING
from fleetwarden.domain.rollback_target import Target, rollback_target
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["AGAIN_S", "PATIENCE_S", "Refusal", "WatchFollowUp"]

AGAIN_S = 5.0  # how soon what cannot be asked for now is tried again
BUSY_S = 1.0  # the same for a target with an open action: what it waits for is repaired over and over meanwhile
PATIENCE_S = 3_600.0  # after the verdict: then what was not proposed is left to people
HELD_S = 10.0  # how soon what a freeze or a storm holds is asked for again
HELD_MAX: Micros = 86_400 * SECOND  # after the verdict, as long as such a hold lasts


Refusal = Callable[[ActionRequest, Service], str | None]


class WatchFollowUp:
    """`acting`: substrates that may act; elsewhere what is proposed is simulated.  `refusal`: why no actuator would
    ever carry a request out, or None."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        gate: Gate,
        desk: IntentDesk,
        *,
        acting: frozenset[str],
        refusal: Refusal,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._gate = gate
        self._desk = desk
        self._acting = acting
        self._refusal = refusal

    def step(self, watch: DeployWatch, fence: LeaseFence) -> Step:
        """Do what this failed watch leads to, or say when to try again.  Raises StoreUnavailable, Fenced."""
        files = self._store.read(lambda tx: as_asked(tx, self._configuration.current()))
        if files.fleet.error:
            return Step.later(AGAIN_S, f"the registry cannot be read: {files.fleet.error}")
        service = files.fleet.services.get(watch.service)
        if service is None:
            return self._escalated(watch, f"{watch.service} is not in the registry any more")
        if service.mode is Mode.OBSERVE:
            return self._escalated(watch, "its mode is observe: it is looked at and left alone")
        seen = self._sightings.look_at(service)
        if seen is None:
            return self._later(watch, AGAIN_S, f"{watch.service} cannot be observed now")
        if watch.on_fail is OnFail.SCALE_BACK:
            return self._scale_back(watch, service, seen, fence)
        return self._roll_back(watch, service, seen, fence)

    def _roll_back(self, watch: DeployWatch, service: Service, seen: ObservedService, fence: LeaseFence) -> Step:
        if seen.presence is not Presence.STARTED:
            return self._escalated(watch, f"{watch.service} does not run any more")
        running = list(versions.running(seen))
        if versions.unclear(seen):  # a replica that is just being started again: it may be of any version
            return self._later(watch, BUSY_S, f"a replica of {watch.service} does not tell its version yet")
        if running and watch.version not in running:
            return self._escalated(watch, f"version {watch.version} does not run any more", severity="warning")
        newer, target, key = self._store.read(
            lambda tx: (*_target(tx, watch, service, running), key_of_attempt(tx, watch))
        )
        if newer is not None:
            return Step.done(f"left to watch {newer.id}, of a later change of version")
        if not target.version:
            return self._escalated(watch, target.reason)
        if key is None:
            return self._escalated(watch, f"nothing came of {ATTEMPTS_MAX} rollbacks to {target.version}")
        reason = f"version {watch.version} failed watch {watch.id} ({watch.reason[:300]}); {target.reason}"
        need = Need(kind=Kind.ROLLBACK, params={"version": target.version}, reason=reason)
        request = request_for(
            need,
            service,
            seen,
            key=key,
            source=Source.DEPLOY_WATCH,
            by=Source.DEPLOY_WATCH,
            acting=self._acting,
        )
        if (why := self._refusal(request, service)) is not None:
            return self._escalated(watch, why)
        if (held := self._held(request)) is not None:
            return self._later(
                watch, HELD_S, f"rollback of {watch.service} to {target.version} waits: {held}", held=True
            )
        [answer] = self._gate.admit([request], fence=fence)
        return self._answered(watch, target, answer)

    def _held(self, request: ActionRequest) -> str | None:
        """What holds it for now, and ends: denied once, it would never be asked for again."""
        files, file = self._configuration.current(), self._configuration.freeze_file()
        ruling = self._store.read(lambda tx: rule_on(tx, as_asked(tx, files), file, request))
        return ruling.reason if ruling.verdict is Verdict.DENY and ruling.code in LASTING else None

    def _answered(self, watch: DeployWatch, target: Target, answer: Admission) -> Step:
        what = f"rollback of {watch.service} to {target.version}"
        if answer.answer in (Answer.BUSY, Answer.STALE, Answer.DEFERRED):
            wait_s = BUSY_S if answer.answer is Answer.BUSY else AGAIN_S
            return self._later(watch, wait_s, f"{what} waits: {answer.reason}")
        if answer.answer in (Answer.DENIED, Answer.REPEATED):
            return self._escalated(watch, f"{what} was not allowed: {answer.reason}")
        if answer.approval is not None:
            return self._told(watch, "warning", f"{what} waits for approval {answer.approval.id}")
        if answer.record is None:
            return self._told(watch, "warning", f"{what} goes ahead (simulated)")
        return self._told(watch, "warning", f"{what} goes ahead ({answer.record.id})", action=answer.record.seq)

    def _scale_back(self, watch: DeployWatch, service: Service, seen: ObservedService, fence: LeaseFence) -> Step:
        """The count from before, as an intent, once the cooldown of the failed change is over."""
        block, count = service.scaling, watch.from_replicas
        if block is None or block.controller_mode != "native" or count is None:
            return self._escalated(watch, f"the count of {watch.service} does not follow load here any more")
        count = max(block.min, min(count, block.max))
        if count == seen.total:
            return self._escalated(watch, f"{watch.service} has {count} replicas by now", severity="warning")
        latest = self._store.read(lambda tx: tx.intents.latest(watch.service))
        if latest is not None and latest.action_seq != watch.action_seq and latest.moved_at > (watch.ended_at or 0):
            return self._escalated(watch, f"{latest.id} came after it", severity="warning")
        revision = 0 if latest is None else latest.intent.revision
        up = count > seen.total
        told = f"{seen.total} → {count} replicas: watch {watch.id} failed ({watch.reason[:300]})"
        need = Need(kind=Kind.SCALE, params={"replicas": count}, reason=told, direction="up" if up else "down")
        request = request_for(
            need, service, seen, key="", source=Source.DEPLOY_WATCH, by=Source.DEPLOY_WATCH, acting=self._acting
        )
        if (held := self._held(request)) is not None:
            return self._later(watch, HELD_S, f"{watch.service} back to {count} replicas waits: {held}", held=True)
        since: Micros = watch.started
        signal = SignalSummaryRef(
            digest=digest(["watch", watch.id, watch.reason]),
            window_start=since,
            window_end=max(since, watch.ended_at or since),
            signals=0,
        )
        wish = Wanted(
            service=service,
            expected_revision=revision,
            desired=count,
            observed=seen.total,
            signal=signal,
            request=request,
            cooldown_s=block.cooldown_s(up=up),
            operation=IntentOperation.ROLLBACK,
        )
        [put] = self._desk.put([wish], fence=fence)
        return self._put(watch, count, put)

    def _put(self, watch: DeployWatch, count: int, put: Put) -> Step:
        what = f"{watch.service} back to {count} replicas"
        if put.answer in (PutAnswer.ACCEPTED, PutAnswer.PROPOSED, PutAnswer.SAME):
            waits = f", waits for approval {put.approval.id}" if put.approval is not None else ""
            row = "" if put.row is None else f" ({put.row.id})"
            return self._told(watch, "warning", f"{what} is asked for{row}{waits}")
        if put.answer in (PutAnswer.DENIED, PutAnswer.REPEATED, PutAnswer.UNIT, PutAnswer.SUSPENDED):
            return self._escalated(watch, f"{what}: {put.reason}")
        wait = AGAIN_S
        if put.until is not None:
            now = self._store.read(lambda tx: tx.now())
            wait = max(1.0, seconds(put.until - now))
        return self._later(watch, wait, f"{what} waits: {put.reason}")

    def _later(self, watch: DeployWatch, wait_s: float, why: str, *, held: bool = False) -> Step:
        """Try again, but not for ever: evidence that old says nothing about now."""
        now = self._store.read(lambda tx: tx.now())
        until = (watch.ended_at or now) + int(PATIENCE_S * SECOND)
        if watch.on_fail is OnFail.SCALE_BACK:
            until += 86_400 * SECOND  # the longest cooldown that a block may have
        if held:
            until = max(until, (watch.ended_at or now) + HELD_MAX)
        if now + int(wait_s * SECOND) > until:
            waited = seconds(now - (watch.ended_at or now)) / 60
            return self._escalated(watch, f"given up after {waited:.0f} minutes: {why}")
        return Step.later(wait_s, why)

    def _escalated(self, watch: DeployWatch, why: str, *, severity: str = "critical") -> Step:
        return self._told(watch, severity, f"nothing is done about it: {why}")

    def _told(self, watch: DeployWatch, severity: str, what: str, *, action: int = 0) -> Step:
        told = f"{watched_words(watch)} failed: {what}"
        return Followed(after_s=None, note=what, severity=severity, told=told, action=action)


def _target(tx: Tx, watch: DeployWatch, service: Service, running: list[str]) -> tuple[DeployWatch | None, Target]:
    """A later watch that has taken over, and where to go back to otherwise."""
    newest = tx.watches.newest_change(watch.service)
    newer = newest if newest is not None and newest.seq > watch.seq else None
    return newer, rollback_target(watch, service, running=running, **known_versions(tx, watch.service))
