"""What each step of a playbook does, once: look, ask policy, wait for an outcome, tell, put before a person.

A step answers with an outcome for the event's log, with a wait, or with the end of the playbook.  Whatever it writes
carries the event's own keys, so that a step that is taken again after a crash finds what it did and does it no second
time.  It never actuates: the executor does, from the record that the gate wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fleetwarden.controllers.dependencies import dependencies_of
from fleetwarden.controllers.escalating import escalate_to_people
from fleetwarden.controllers.gate import Admission, Answer, Gate, rule_on
from fleetwarden.controllers.reconciler import request_for
from fleetwarden.controllers.restraint import Restraint
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.storm_watch import severity_in
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, Record, Source, Verdict
from fleetwarden.domain.convergence import Need, Rest, converge, facts, identity
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.events import StoredEvent
from fleetwarden.domain.fleet import Mode, ObservedService, Service
from fleetwarden.domain.identifiers import JsonValue, parse_id, rfc3339
from fleetwarden.domain.lifecycles import OPEN_RECORDS, OutboxState
from fleetwarden.domain.outside import LASTING
from fleetwarden.domain.playbooks import End, PlaybookStep, StepKind
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Doing", "Outcome", "PlaybookSteps", "Wait"]

LOOK_FOR_S = 60.0  # without an answer, before a service counts as not to be confirmed
POLL_S = 5.0
ACT_POLL_S = 1.0
WATCH_POLL_S = 15.0
REPLACED_MAX = 100  # watches that took each other's place: a chain of them ends
_AT_REST = frozenset({"as_declared", "follows_load", "scaled_to_zero", "count_not_ours"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step came to: a word, whether that is well, and what to look up.

    `wait_s`: the next step comes after it.  `write`: what belongs into the transaction of the log's own line, so that
    it is done exactly when the line is written; it returns more to look up.
    """

    word: str
    ok: bool = True
    detail: Mapping[str, JsonValue] = field(default_factory=dict)
    wait_s: float = 0.0
    write: Callable[[Tx], Mapping[str, JsonValue]] | None = None


class Wait(Record):
    """It is too early: the step is taken again."""

    seconds: float
    reason: str


class Doing(Record):
    """One event under one playbook.  `log`: what that playbook did so far; `waited_s`: how long this step waits."""

    event: StoredEvent
    playbook: str
    log: Sequence[Mapping[str, JsonValue]]
    place: int
    waited_s: float = 0.0

    @property
    def service(self) -> str:
        return self.event.event.service or ""

    @property
    def by(self) -> str:
        return f"playbook {self.playbook}"

    def key(self, what: str) -> str:
        """Names this step of this event for ever, so that it is done once."""
        return f"playbook:{self.event.id}:{self.place}:{what}"

    def found(self, kind: StepKind, name: str) -> str:
        """What the newest step of a kind wrote down under a name, or ""."""
        for one in reversed(self.log):
            if one.get("kind") == kind and isinstance(value := one.get(name), str):
                return value
        return ""


class PlaybookSteps:
    """`refusal`: why nothing here carries out a request, or None.  `acting`: substrates that really act.

    `unready`: why nothing may be asked for a service now, because the plane is not healthy in what it rests on.
    """

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        gate: Gate,
        restraint: Restraint,
        refusal: Callable[[ActionRequest, Service], str | None],
        *,
        acting: frozenset[str],
        unready: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._sightings = sightings
        self._gate = gate
        self._restraint = restraint
        self._refusal = refusal
        self._acting = acting
        self._unready = unready

    def seen(self, service: str) -> ObservedService | None:
        """What was last seen of it, for a playbook to read; a step looks for itself."""
        return self._sightings.last().get(service)

    def take(self, doing: Doing, step: PlaybookStep, still: Callable[[Tx], object]) -> Outcome | Wait | End:
        """Do one step.  `still` raises Fenced where somebody else took it over.  Raises StoreUnavailable, Fenced."""
        match step.kind:
            case StepKind.CONFIRM:
                return self._confirm(doing)
            case StepKind.DECIDE:
                return self._decide(doing, still)
            case StepKind.ACT:
                return self._act(doing)
            case StepKind.WATCH:
                return self._watch(doing)
            case StepKind.NOTIFY:
                return self._notify(doing, step)
            case StepKind.ESCALATE:
                return self._escalate(doing, step)
            case StepKind.WAIT:
                return Outcome(word="waited", detail={"wait_s": step.wait_s}, wait_s=step.wait_s)

    def well(self, name: str) -> str | None:
        """Why nothing is needed of that service by what is seen now, or None."""
        _, service, seen = self._now(name)
        need = None if service is None else converge(service, seen)
        return need.reason if isinstance(need, Rest) and need.code in _AT_REST else None

    def _now(self, name: str) -> tuple[Configuration, Service | None, ObservedService | None]:
        files = self._configuration.current()
        configuration = self._store.read(lambda tx: as_asked(tx, files))
        service = configuration.fleet.services.get(name)
        return configuration, service, None if service is None else self._sightings.look_at(service)

    def _needs(self, doing: Doing) -> tuple[Need, Service, ObservedService] | Outcome | Wait | End:
        """What the service needs by what is seen now; an end where nothing is to be done about it."""
        configuration, service, seen = self._now(doing.service)
        if service is None:
            if configuration.fleet.error or doing.service in configuration.fleet.rejected:
                return Wait(seconds=POLL_S, reason=f"{doing.service} cannot be read from the registry now")
            return End(status="left_alone", reason=f"{doing.service} is no longer in the registry")
        need = converge(service, seen)
        if isinstance(need, Rest):
            if need.code == "starting":
                return Wait(seconds=POLL_S, reason=f"{doing.service} is {need.reason}")
            if need.code in ("unobserved", "unknown"):
                if doing.waited_s < LOOK_FOR_S:
                    return Wait(seconds=POLL_S, reason=need.reason)
                return Outcome(word="not_confirmed", ok=False, detail={"reason": need.reason})
            if need.code in _AT_REST:
                return End(status="recovered", reason=f"{doing.service} is well by now: {need.reason}")
            return End(status="left_alone", reason=need.reason)
        assert seen is not None
        if need.kind != Kind.RESTART:
            return End(status="left_alone", reason=f"it needs {need.kind} ({need.reason}), which is the reconciler's")
        return need, service, seen

    def _confirm(self, doing: Doing) -> Outcome | Wait | End:
        found = self._needs(doing)
        if not isinstance(found, tuple):
            return found
        need, _, seen = found
        return Outcome(
            word="confirmed",
            detail={
                "status": seen.status.value,
                "seen_by": seen.source,
                "observed_at": rfc3339(seen.observed_at),
                "reason": need.reason,
            },
        )

    def _decide(self, doing: Doing, still: Callable[[Tx], object]) -> Outcome | Wait | End:
        key = doing.key("decide")
        if (before := self._store.read(lambda tx: _decided(tx, key))) is not None:
            return before
        if (blind := self._unready(doing.service)) is not None:
            return Wait(seconds=POLL_S, reason=blind)
        found = self._needs(doing)
        if not isinstance(found, tuple):
            return found
        need, service, seen = found
        request = request_for(need, service, seen, key=key, source=Source.PLAYBOOK, by=doing.by, acting=self._acting)
        if (why := self._refusal(request, service)) is not None:
            return Outcome(word="refused", ok=False, detail={"reason": why})
        if (wait := self._held(request, service, seen)) is not None:
            return wait
        [answer] = self._gate.admit([request], fence=None, still=still)
        return _answered(answer)

    def _held(self, request: ActionRequest, service: Service, seen: ObservedService) -> Wait | End | None:
        """What holds the reconciler holds a playbook: dependencies, failures in a row, a person's no, freezes."""
        files, file = self._configuration.current(), self._configuration.freeze_file()
        needed = dependencies_of(service, files.last_good_fleet.services)
        around = self._sightings.look(needed).seen if needed else {}

        def read(tx: Tx) -> Wait | End | None:
            configuration = as_asked(tx, files)
            fleet = configuration.last_good_fleet.services
            held = self._restraint.one(tx, request, fleet, {**around, request.target: seen})
            if held is not None and held.code != "waits_for":
                return End(status="left_alone", reason=held.reason)
            if held is not None:
                return Wait(seconds=POLL_S, reason=held.reason)
            ruling = rule_on(tx, configuration, file, request)
            if ruling.verdict is Verdict.DENY and ruling.code in LASTING:
                return Wait(seconds=2 * POLL_S, reason=ruling.reason)
            return None

        return self._store.read(read)

    def _act(self, doing: Doing) -> Outcome | Wait | End:
        action = doing.found(StepKind.DECIDE, "action")
        if not action:
            return Outcome(word="nothing_authorised", ok=False)
        record = self._store.read(lambda tx: tx.outbox.get(parse_id("X", action)))
        if record.state in OPEN_RECORDS:
            return Wait(seconds=ACT_POLL_S, reason=f"{record.id} is {record.state.value}")
        detail: dict[str, JsonValue] = {"action": record.id}
        if record.outcome is not None:
            detail |= {"reason": record.outcome.detail, "code": record.outcome.code}
        if record.state is OutboxState.SIMULATED:
            return End(status="simulated", reason=f"{record.id} is a dry run: nothing was changed")
        return Outcome(word=record.state.value, ok=record.state is OutboxState.SUCCEEDED, detail=detail)

    def _watch(self, doing: Doing) -> Outcome | Wait | End:
        action = doing.found(StepKind.ACT, "action")
        if not action:
            return Outcome(word="nothing_done", ok=False)
        status = self._store.read(lambda tx: _watched(tx, parse_id("X", action)))
        if status is None:
            return Wait(seconds=WATCH_POLL_S, reason=f"the watch over {action} is not over")
        return Outcome(word=status, ok=status == "success", detail={"action": action})

    def _notify(self, doing: Doing, step: PlaybookStep) -> Outcome:
        """In a storm as an error: the page has gone out."""
        told, event = doing.event.event, doing.event
        service = self._configuration.current().last_good_fleet.services.get(doing.service)
        group = "" if service is None else service.group
        text = step.text or "nothing is done about it by itself"
        summary = f"{told.subject}: {told.summary or told.status} ({event.id}, {told.source}): {text}"

        def write(tx: Tx) -> Mapping[str, JsonValue]:
            tx.journal.write(
                topic="notice",
                actor=doing.by,
                subject=doing.service,
                severity=severity_in(tx, told.severity.value, group),
                summary=summary,
                detail={"event": event.id, "playbook": doing.playbook},
            )
            return {}

        return Outcome(word="told", write=write)

    def _escalate(self, doing: Doing, step: PlaybookStep) -> Outcome | End:
        configuration, service, seen = self._now(doing.service)
        if service is None:
            return End(status="left_alone", reason=f"{doing.service} is no longer in the registry")
        reason = step.text or _why(doing)
        need = None if seen is None else converge(service, seen)
        request = ActionRequest(
            kind=step.action,
            target=service.name,
            params=need.params if isinstance(need, Need) and need.kind == step.action else {},
            source=Source.PLAYBOOK,
            requested_by=doing.by,
            reason=f"{doing.event.id} ({doing.event.event.summary or doing.event.event.status}): {reason}",
            key=doing.key("escalate"),
            group=service.group,
            substrate=service.substrate,
            identity=identity(service),
            dry_run=service.mode is Mode.DRY_RUN or service.substrate not in self._acting,
            evidence=Evidence(
                observed_at=None if seen is None else seen.observed_at,
                reason=reason,
                facts={} if seen is None else facts(seen),
            ),
        )
        file = self._configuration.freeze_file()

        def write(tx: Tx) -> Mapping[str, JsonValue]:
            done = escalate_to_people(tx, configuration, self._gate.texts, file, request, reason)
            return {"approval": done.approval, "reason": done.reason}

        return Outcome(word="put before a person", write=write)


def _why(doing: Doing) -> str:
    """What failed, for the person who is asked."""
    failed = next((one for one in reversed(doing.log) if one.get("ok") is False), None)
    if failed is None:
        return f"the playbook {doing.playbook} asks for it"
    told = str(failed.get("reason") or "")
    return f"{failed.get('kind')} came to {str(failed.get('outcome')).replace('_', ' ')}" + (
        f" ({told})" if told else ""
    )


def _decided(tx: Tx, key: str) -> Outcome | None:
    """What was decided under this key before a crash, if it was."""
    decision = tx.decisions.by_key(key)
    if decision is None:
        return None
    if decision.verdict is Verdict.DENY:
        return Outcome(word="denied", ok=False, detail={"decision": decision.id, "reason": decision.reason})
    record = tx.outbox.by_key(key)
    if record is None:
        return Outcome(word="waits_for_person", ok=False, detail={"decision": decision.id, "reason": decision.reason})
    return Outcome(word="authorised", detail={"decision": decision.id, "action": record.id})


def _answered(answer: Admission) -> Outcome | Wait:
    detail: dict[str, JsonValue] = {"reason": answer.reason}
    if answer.decision is not None:
        detail["decision"] = answer.decision.id
    if answer.approval is not None:
        detail["approval"] = answer.approval.id
    match answer.answer:
        case Answer.PREPARED | Answer.ALLOWED:
            action = {} if answer.record is None else {"action": answer.record.id}
            return Outcome(word="authorised", detail={**detail, **action})
        case Answer.QUEUED | Answer.WAITING:
            return Outcome(word="waits_for_person", ok=False, detail=detail)
        case Answer.DENIED | Answer.REPEATED:
            return Outcome(word="denied", ok=False, detail=detail)
        case Answer.BUSY | Answer.STALE | Answer.DEFERRED:
            return Wait(seconds=POLL_S, reason=answer.reason)


def _watched(tx: Tx, action: int) -> str | None:
    """What the watch over an action came to, or the one that took its place; None while it lasts.

    Without a watch nobody saw what became of it.
    """
    watch = tx.watches.of_action(action)
    for _ in range(REPLACED_MAX):
        if watch is None or watch.status is not WatchStatus.REPLACED or watch.replaced_by is None:
            break
        watch = tx.watches.get(watch.replaced_by)
    if watch is None:
        return WatchStatus.UNOBSERVED.value
    return None if watch.status is WatchStatus.RUNNING else watch.status.value
