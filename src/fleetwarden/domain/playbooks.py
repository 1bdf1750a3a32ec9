"""What is done about an event: playbooks, which are short fixed lists of steps, and which one answers which event.

Pure: an event and what was done about it so far in, the next step out.  A playbook proposes and never decides: its
`decide` step goes through policy like anybody's request, and evidence from before the step counts for nothing.  What is
over, what is about no service of ours and what is old is answered by no playbook that acts.

A playbook's steps are: confirm (look at the service), decide (ask policy), act (wait for what was authorised), watch
(wait for what becomes of it), notify, escalate (put it before a person), wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from fleetwarden.domain.actions import Kind, Record
from fleetwarden.domain.event_words import source_of
from fleetwarden.domain.events import EventClass, Phase, Severity, StoredEvent
from fleetwarden.domain.fleet import ObservedService
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros

__all__ = [
    "BUILT_IN",
    "ESCALATE_KINDS",
    "FAILURES_MAX",
    "FLAPS_MIN",
    "FLAP_WINDOW",
    "REMEDIATED",
    "End",
    "Entry",
    "Playbook",
    "PlaybookEntry",
    "PlaybookStep",
    "StepKind",
    "When",
    "built_in",
    "done_by",
    "failures_in_a_row",
    "inert",
    "linear",
    "look_up",
]

FLAP_WINDOW: Micros = 1800 * SECOND
FLAPS_MIN = 3  # outages of a service within the window that make it flapping
FAILURES_MAX = 3  # in a row, before the failure itself is put before a person
REMEDIATED = (Severity.CRITICAL, Severity.ERROR)  # a warning ends with the default playbook
ESCALATE_KINDS = (Kind.RESTART, Kind.INVESTIGATE)
BUILT_IN = ("service_down", "service_flapping", "resource_pressure", "tell")
_HEALED = frozenset({"succeeded", "recovered", "resolved"})

Entry = Mapping[str, JsonValue]  # one line of an event's remediation log


class StepKind(StrEnum):
    CONFIRM = "confirm"
    DECIDE = "decide"
    ACT = "act"
    WATCH = "watch"
    NOTIFY = "notify"
    ESCALATE = "escalate"
    WAIT = "wait"


class When(StrEnum):
    """When a notify or escalate step is taken: whatever came before, or only after a step that failed, or none did."""

    ALWAYS = "always"
    FAILED = "failed"
    OK = "ok"


class PlaybookStep(Record):
    """One step.  `action`: the kind that decide and escalate ask for; `text`: of a notice; `wait_s`: 0 to 3600."""

    kind: StepKind
    action: str = Kind.RESTART
    text: str = ""
    wait_s: float = 0.0
    when: When = When.ALWAYS


class End(Record):
    """Nothing more is to be done.  `status` is the event's remediation status from here on."""

    status: str
    reason: str = ""


Playbook = Callable[[StoredEvent, ObservedService | None, Sequence[Entry]], PlaybookStep | End]


class PlaybookEntry(Record):
    """A playbook that answers events.  `on`: `source:severity`, or a source; `class_` "": any; `services`: globs, ():
    any.  `steps` () is one that is written in Python, and found by its name."""

    name: str
    on: tuple[str, ...]
    class_: str = ""
    services: tuple[str, ...] = ()
    steps: tuple[PlaybookStep, ...] = ()
    where: str = ""

    def answers(self, event: StoredEvent, key: str) -> bool:
        """Whether it is for this event, found under this key."""
        told = event.event
        return (
            _spelled(key) in map(_spelled, self.on)
            and self.class_ in ("", told.class_)
            and (not self.services or any(fnmatchcase(told.service or "", one) for one in self.services))
        )


def _spelled(key: str) -> str:
    """A key in which the source is written as events have it."""
    source, colon, severity = key.partition(":")
    return f"{source_of(source)}{colon}{severity}"


_DOWN = (
    PlaybookStep(kind=StepKind.CONFIRM),
    PlaybookStep(kind=StepKind.DECIDE),
    PlaybookStep(kind=StepKind.ACT),
    PlaybookStep(kind=StepKind.WATCH),
    PlaybookStep(kind=StepKind.ESCALATE, when=When.FAILED),
)
_FLAPPING = (PlaybookStep(kind=StepKind.ESCALATE, text="it goes down again and again: restarting it hides the fault"),)
_PRESSURE = (
    PlaybookStep(kind=StepKind.NOTIFY, text="a resource is short: restarting is no cure, so nothing is restarted"),
    PlaybookStep(kind=StepKind.ESCALATE, action=Kind.INVESTIGATE),
)
_TELL = (PlaybookStep(kind=StepKind.NOTIFY),)


def built_in(event: StoredEvent, outages: int) -> tuple[str, tuple[PlaybookStep, ...]]:
    """The shipped playbook for an event, by its class: pressure first, then flapping, then down; else people are told.

    `outages`: how often the service went down within the flap window, this time included.
    """
    kind = event.event.class_
    if kind is EventClass.PRESSURE:
        return "resource_pressure", _PRESSURE
    if kind is EventClass.FLAPPING or (kind is EventClass.DOWN and outages >= FLAPS_MIN):
        return "service_flapping", _FLAPPING
    if kind is EventClass.DOWN:
        return "service_down", _DOWN
    return "tell", _TELL


def inert(event: StoredEvent, now: Micros, max_age: Micros) -> End | None:
    """Why no playbook but the default one answers this event, or None.

    What is over never acts; a reminder, a statement that came too late or a test is no new outage; a warning ends with
    the default playbook; what is about no service of ours is kept and left alone.  What is older than `max_age` is only
    told.
    """
    told = event.event
    if told.phase is Phase.RESOLVED:
        return End(status="resolved", reason="it is over: nothing is done")
    if told.phase is Phase.NOTE:
        return End(status="noted", reason="it says of nothing that it began or ended")
    if event.late:
        return End(status="late", reason="something newer is known of this alert")
    if event.repeat_of is not None:
        return End(status="repeat", reason="a reminder of an outage that is dealt with already")
    if event.ended_at is not None:
        return End(status="resolved", reason="it ended before anything was done")
    if told.severity not in REMEDIATED:
        return End(status="triaged", reason=f"{told.severity}: the default playbook is all")
    if told.service is None:
        return End(status="unmatched", reason=f"{told.subject} is no service of this fleet: nothing is done")
    if now - event.at > max_age:
        return End(status="too_old", reason="too old to act on: people are told")
    return None


def look_up(entries: Sequence[PlaybookEntry], event: StoredEvent) -> PlaybookEntry | None:
    """The playbook of this deployment for an event: by source and severity first, then by source.  First one wins.

    A source is one of `events.yml` by its name, then the kind of sender.
    """
    told = event.event
    sources = [one for one in (told.origin, told.source) if one]
    for key in (*(f"{one}:{told.severity}" for one in sources), *sources):
        for one in entries:
            if one.answers(event, key):
                return one
    return None


def done_by(log: Sequence[Entry], name: str) -> list[Entry]:
    """What this playbook has done about the event so far, oldest first."""
    return [one for one in log if one.get("playbook") == name and one.get("step") is not None]


def linear(steps: Sequence[PlaybookStep], log: Sequence[Entry]) -> tuple[int, PlaybookStep] | End:
    """The next step of a fixed list and its place in it, given what its steps came to (each entry names its `step`).

    After a step that failed, only notify and escalate steps that are meant for it follow.
    """
    failed = next((one for one in log if one.get("ok") is False), None)
    taken = max((one["step"] for one in log if isinstance(one.get("step"), int)), default=-1)
    for place, step in enumerate(steps):
        if place > taken and _is_due(step, failed is not None):
            return place, step
    kinds = {str(one.get("kind")) for one in log if one.get("ok") is not False}
    if StepKind.ESCALATE in kinds:
        return End(status="escalated", reason=str((failed or {}).get("outcome") or ""))
    if failed is not None:
        return End(status="failed", reason=str(failed.get("outcome") or ""))
    return End(status="notified" if kinds <= {StepKind.NOTIFY, StepKind.WAIT} else "succeeded")


def _is_due(step: PlaybookStep, failed: bool) -> bool:
    if step.kind not in (StepKind.NOTIFY, StepKind.ESCALATE):
        return not failed
    return step.when is When.ALWAYS or (step.when is When.FAILED) == failed


def failures_in_a_row(outages: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The outages of one service in a row, newest first, that were not healed: one event of each.

    Events that were stored at once tell of one outage.
    """
    found: dict[Micros, StoredEvent] = {}
    for one in outages:
        if one.remediation_status in _HEALED:
            break
        if one.event.severity in REMEDIATED:
            found.setdefault(one.at, one)
    return list(found.values())
