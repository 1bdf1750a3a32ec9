"""What follows an event: the default playbook first, then the one that answers it, step by step.

Every step's outcome is a line in the event's remediation log, written in a transaction that the step's own effects
share or that finds them by their keys; so a plane that dies between two steps goes on with the next one, within the
event's own times, and does nothing twice.  Nothing is decided here: a playbook asks, policy decides, the executor acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import structlog

from fleetwarden.controllers.failure_gap import file_gap
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.playbook_steps import Doing, Outcome, PlaybookSteps, Wait
from fleetwarden.controllers.storm_watch import severity_in
from fleetwarden.controllers.worker import Step, still_ours
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.events import EventClass, StoredEvent
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros
from fleetwarden.domain.playbook_file import asked_problem
from fleetwarden.domain.playbooks import (
    FAILURES_MAX,
    FLAP_WINDOW,
    End,
    Playbook,
    PlaybookEntry,
    PlaybookStep,
    built_in,
    done_by,
    failures_in_a_row,
    inert,
    linear,
    look_up,
)
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.events import TRIAGE
from fleetwarden.ports.stores import Store, Tx, WorkItem

__all__ = ["TRIAGE", "Triage"]

log = structlog.get_logger(__name__)
STEPS_AT_ONCE = 8  # then the next event has its turn
RUN_MAX: Final[Micros] = 86_400 * SECOND  # whatever a playbook waits for, it ends
OUTAGES_READ = 20
_NOT_WELL = frozenset({"failed", "escalated"})


class Triage:
    """`entries`: this deployment's own playbooks; `written`: those of them that are written in Python, by name."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        gate: Gate,
        steps: PlaybookSteps,
        *,
        entries: Callable[[], Sequence[PlaybookEntry]],
        written: Callable[[], Mapping[str, Playbook]],
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._gate = gate
        self._steps = steps
        self._entries = entries
        self._written = written

    def handle(self, item: WorkItem) -> Step:
        """Take the next steps of one event's playbook.  Raises StoreUnavailable, Fenced."""
        seq = int(item.payload["event"])
        try:
            event = self._store.read(lambda tx: tx.events.get(seq))
        except NotFound:
            return Step.done("the event was pruned meanwhile")
        if not event.remediation_log:
            event = self._begin(item, event)
        for _ in range(STEPS_AT_ONCE):
            done = self._next(item, event)
            if isinstance(done, Step):
                return done
            event = done
        return Step.later(0.0, "more steps follow")

    # -------------------------------------------------------------------------------------------- the default playbook
    def _begin(self, item: WorkItem, event: StoredEvent) -> StoredEvent:
        """Correlate, count, and choose who answers; in one line, which pins what was chosen."""
        max_age = self._configuration.current().policy.options.event_max_age_s * SECOND

        def run(tx: Tx) -> StoredEvent:
            still_ours(tx, item)
            known = tx.events.get(event.seq)
            if known.remediation_log:
                return known
            service = known.event.service or ""
            outages = tx.events.outages(service, tx.now() - FLAP_WINDOW) if service else 0
            line: dict[str, JsonValue] = {
                "playbook": "default",
                "kind": "triage",
                "class": known.event.class_.value,
                "outages": outages,
                "closes": None if known.closes is None else f"E-{known.closes}",
            }
            end = inert(known, tx.now(), max_age)
            if end is not None:
                if end.status == "too_old":
                    self._tell_of(tx, known, end.reason)
                return tx.events.append_log(
                    known.seq, {**line, "outcome": end.status, "reason": end.reason}, status=end.status
                )
            name, steps = self._chosen(known, outages)
            plan: JsonValue = msgspec.to_builtins(steps)
            return tx.events.append_log(
                known.seq, {**line, "outcome": "answered", "answered_by": name, "steps": plan}, status="running"
            )

        return self._store.transact("triage", run)

    def _chosen(self, event: StoredEvent, outages: int) -> tuple[str, tuple[PlaybookStep, ...]]:
        entry = look_up(self._entries(), event)
        return built_in(event, outages) if entry is None else (entry.name, entry.steps)

    # ------------------------------------------------------------------------------------------------ the one that acts
    def _next(self, item: WorkItem, event: StoredEvent) -> StoredEvent | Step:
        """One step further: the event as it is then, or when to come again."""
        if event.remediation_status != "running":
            return Step.done(event.remediation_status, event=event.id, status=event.remediation_status)
        begun = event.remediation_log[0]
        name = str(begun["answered_by"])
        steps = msgspec.convert(begun.get("steps") or (), tuple[PlaybookStep, ...])
        taken = done_by(event.remediation_log, name)
        if (end := self._over(event)) is not None:
            return self._end(item, event, name, end)
        found = self._step(event, name, steps, taken)
        if isinstance(found, End):
            return self._end(item, event, name, found)
        place, step = found
        doing = Doing(event=event, playbook=name, log=taken, place=place, waited_s=self._since(event))
        done = self._steps.take(doing, step, lambda tx: still_ours(tx, item))
        if isinstance(done, End):
            return self._end(item, event, name, done)
        if isinstance(done, Wait):
            return Step.later(done.seconds, done.reason)
        fresh = self._write(item, event, name, place, step, done)
        return Step.later(done.wait_s, f"waits {done.wait_s:g} s") if done.wait_s else fresh

    def _since(self, event: StoredEvent) -> float:
        """Seconds since the last line of its log."""
        last = datetime.fromisoformat(str(event.remediation_log[-1]["at"]))
        return self._store.read(lambda tx: tx.now()) / SECOND - last.timestamp()

    def _over(self, event: StoredEvent) -> End | None:
        """An outage that ended, or a run that lasts too long, ends the playbook before anything new is asked."""
        asked = any(one.get("kind") == "decide" for one in event.remediation_log)
        if event.ended_at is not None and not asked:
            return End(status="resolved", reason="it ended before anything was done")
        now, options = self._store.read(lambda tx: tx.now()), self._configuration.current().policy.options
        if not asked and event.event.class_ is EventClass.DOWN and now - event.at > options.event_max_age_s * SECOND:
            if (well := self._steps.well(event.event.service or "")) is not None:
                return End(status="recovered", reason=f"too old to act on, and well by now: {well}")
            return End(status="too_old", reason="too old to act on by now: people are told")
        if now - event.at > RUN_MAX:
            return End(status="failed", reason="it did not end within a day")
        return None

    def _step(
        self, event: StoredEvent, name: str, steps: tuple[PlaybookStep, ...], taken: Sequence[Mapping[str, JsonValue]]
    ) -> tuple[int, PlaybookStep] | End:
        if steps:
            return linear(steps, taken)
        written = self._written().get(name)
        if written is None:
            return End(status="failed", reason=f"the playbook {name} is not registered with this plane")
        try:
            asked = written(event, self._steps.seen(event.event.service or ""), taken)
        except Exception as error:  # a playbook may be anybody's code, and must not stop the others
            log.exception("playbook failed", playbook=name, about=event.id)
            return End(status="failed", reason=f"the playbook {name} raised {type(error).__name__}: {error}")
        if (problem := asked_problem(asked, taken)) is not None:
            return End(status="failed", reason=f"the playbook {name} {problem}")
        return asked if isinstance(asked, End) else (len(taken), asked)

    def _write(
        self, item: WorkItem, event: StoredEvent, name: str, place: int, step: PlaybookStep, done: Outcome
    ) -> StoredEvent:
        def run(tx: Tx) -> StoredEvent:
            if done.write is not None:
                tx.lock_admission(exclusive=True)
            still_ours(tx, item)
            more = {} if done.write is None else done.write(tx)
            line: dict[str, JsonValue] = {
                "playbook": name,
                "step": place,
                "kind": step.kind.value,
                "outcome": done.word,
                "ok": done.ok,
                **done.detail,
                **more,
            }
            return tx.events.append_log(event.seq, line)

        return self._store.transact("playbook_step", run)

    def _end(self, item: WorkItem, event: StoredEvent, name: str, end: End) -> StoredEvent:
        files, file = self._configuration.current(), self._configuration.freeze_file()

        def run(tx: Tx) -> StoredEvent:
            if end.status in _NOT_WELL:
                tx.lock_admission(exclusive=True)
            still_ours(tx, item)
            line: dict[str, JsonValue] = {"playbook": name, "kind": "end", "outcome": end.status, "reason": end.reason}
            if end.status in ("too_old", "failed"):
                self._tell_of(tx, event, end.reason)
            if end.status in _NOT_WELL and event.event.service is not None:
                known = tx.events.down_events(event.event.service, 0, limit=OUTAGES_READ)
                failed = failures_in_a_row(known)[:FAILURES_MAX]
                if len(failed) == FAILURES_MAX:
                    line["failure_gap"] = file_gap(tx, files, self._gate.texts, file, event, failed)
            return tx.events.append_log(event.seq, line, status=end.status)

        return self._store.transact("playbook_end", run)

    def _tell_of(self, tx: Tx, event: StoredEvent, reason: str) -> None:
        """In a storm as an error: the page has gone out."""
        told = event.event
        service = self._configuration.current().last_good_fleet.services.get(told.service or "")
        tx.journal.write(
            topic="notice",
            actor="triage",
            subject=told.service or "",
            severity=severity_in(tx, told.severity.value, "" if service is None else service.group),
            summary=f"{told.subject}: {told.summary or told.status} ({event.id}, {told.source}): {reason}",
            detail={"event": event.id},
        )
