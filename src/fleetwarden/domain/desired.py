"""What is asked for besides the files: an operator's override, and what somebody else set and we hold.

Pure layering: files at the bottom, the override over them, what somebody else set over both, so that nobody's wish is
undone without a word.  A count that somebody else set is held for a while, a version or a stop until a person says
`adopt` or `reassert`; a second one meanwhile pauses the service.  A crash, a kill and what we did ourselves are never
a change by somebody else, and what was not observed proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from fleetwarden.domain.actions import Kind, Record
from fleetwarden.domain.fleet import DesiredState, ObservedService, Presence, Service, ServiceStatus, Wish
from fleetwarden.domain.identifiers import JsonValue, Micros, rfc3339, show_id

__all__ = [
    "SOLE_WRITER",
    "Baseline",
    "Change",
    "ForeignChange",
    "ForeignField",
    "ForeignState",
    "Override",
    "asked_for",
    "baseline_of",
    "changes_since",
    "layered",
    "left_by",
]

SOLE_WRITER = frozenset({"process"})  # substrates whose wanted state nobody but us can set


class Override(Record):
    """An operator's explicit wish for one service; what is None is left to the files.

    It holds until it is ended or `until` (store time; None: no end) has come.  `ended_how`: cleared | expired |
    replaced.
    """

    seq: int
    service: str
    replicas: int | None
    state: DesiredState | None
    reason: str
    by: str
    at: Micros
    until: Micros | None = None
    ended_at: Micros | None = None
    ended_by: str = ""
    ended_how: str = ""

    @property
    def id(self) -> str:
        return show_id("O", self.seq)

    @property
    def words(self) -> str:
        """What it asks for: `3 replicas`, `stopped`, `running with 3 replicas`."""
        count = "" if self.replicas is None else f"{self.replicas} replica{'' if self.replicas == 1 else 's'}"
        state = "" if self.state is None else self.state.value
        return f"{state} with {count}" if state and count else state or count


class ForeignField(StrEnum):
    REPLICAS = "replicas"
    VERSION = "version"
    STATE = "state"


class ForeignState(StrEnum):
    """What became of it.  Only the first two are layered over what is asked for."""

    HELD = "held"
    ADOPTED = "adopted"
    REASSERTED = "reasserted"  # a person wants it put back
    LAPSED = "lapsed"  # a count whose hold has ended
    REPLACED = "replaced"  # an override of the same field, or a newer change, came after it
    AGREED = "agreed"  # it set what was asked for anyway


class ForeignChange(Record):
    """Something that somebody else set on the substrate.  `before` and `after` as text; `writer` "" if unknown."""

    seq: int
    service: str
    field: ForeignField
    before: str
    after: str
    writer: str
    at: Micros
    hold_until: Micros | None
    pauses: bool  # the second within a hold: the service is paused
    status: ForeignState
    ended_at: Micros | None = None
    ended_by: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        return show_id("C", self.seq)

    @property
    def words(self) -> str:
        """What happened, as the end of a sentence about the service."""
        who = self.writer or "somebody else"
        if self.field is ForeignField.STATE:
            return f"stopped by {who}"
        what = "scaled" if self.field is ForeignField.REPLICAS else "set to another version"
        return f"{what} by {who}, {self.before} → {self.after}"


class Baseline(Record, gc=False):
    """What our last settled action, or the first look, left of a service.  None: the next look tells.

    `at`: a look that began no later than this says nothing.
    """

    service: str
    replicas: int | None = None
    version: str | None = None
    stopped: bool | None = None
    at: Micros = 0


class Change(Record):
    """One field that is not as we left it."""

    field: ForeignField
    before: str
    after: str


def layered(service: Service, override: Override | None, changes: Sequence[ForeignChange]) -> Service:
    """The service as it is asked for now.  `changes`: those that stand, oldest first."""
    new: dict[str, Any] = {}
    told = [service.source] if service.source else []
    if override is not None:
        wish = Wish(words=f"override {override.id} of {override.by}", person=override.by)
        new["override"] = override.id
        if override.replicas is not None:
            new |= {"replicas": override.replicas, "count_wish": wish}
        if override.state is not None:
            new |= {"desired": override.state, "state_wish": wish}
        told.append(wish.words)
    for one in changes:
        new |= _set_by(one, follows_load=service.scaling is not None and "count_wish" not in new)
        told.append(f"{one.field} {'adopted' if one.status is ForeignState.ADOPTED else 'held'} ({one.id})")
    held = [one for one in changes if one.status is ForeignState.HELD]
    if held:
        new["held"] = _held(service.name, held[-1])
    if any(one.pauses for one in held):
        new["paused"] = _paused(service.name, held)
    return msgspec.structs.replace(service, **new, source=", ".join(told)) if override or changes else service


def _set_by(change: ForeignChange, *, follows_load: bool) -> Mapping[str, Any]:
    """What a change asks for.  `follows_load`: the count has no wish but load so far."""
    kept = change.status is ForeignState.ADOPTED
    how = f"{change.id}, adopted by {change.ended_by}," if kept else f"{change.id}, held,"
    wish = Wish(words=how, person=change.ended_by if kept else "")
    if change.field is ForeignField.STATE:
        return {"desired": DesiredState.STOPPED, "state_wish": wish}
    if change.field is ForeignField.VERSION:
        return {"version": change.after}
    # Scaling goes on from the new count, so it is not made a wish of anybody's; where an override suspends scaling, the
    # newer change is held against the override as it is against a declared count.
    return {} if follows_load else {"replicas": int(change.after), "count_wish": wish}


def _held(name: str, change: ForeignChange) -> str:
    until = "" if change.hold_until is None else f" until {rfc3339(change.hold_until)}"
    return f"{change.words} ({change.id}), held{until}; {_commands(name)}"


def _paused(name: str, held: Sequence[ForeignChange]) -> str:
    last = held[-1]
    return f"paused, since somebody else goes on changing it: {last.words} ({last.id}); {_commands(name)}"


def _commands(name: str) -> str:
    return f"keep it: fleetwarden adopt {name}; put it back: fleetwarden reassert {name}"


def asked_for(service: Service, change: Change) -> bool:
    """Whether a change set just what is asked for, so that there is nothing to hold."""
    if change.field is ForeignField.STATE:
        return service.desired is DesiredState.STOPPED
    if change.field is ForeignField.VERSION:
        return service.version == change.after
    follows_load = service.scaling is not None and service.count_wish is None
    return not follows_load and str(service.replicas) == change.after


def baseline_of(service: Service, observed: ObservedService, before: Baseline | None) -> Baseline:
    """What to measure the next look against.  What this look does not tell stays as it was."""
    old = before or Baseline(service=service.name)
    if not _tells(observed):
        return old
    stopped = observed.presence is Presence.STOPPED_BY_OTHER
    return Baseline(
        service=service.name,
        replicas=old.replicas if stopped else observed.total,
        version=observed.version or old.version,
        stopped=stopped,
        at=observed.observed_at,
    )


def changes_since(baseline: Baseline, observed: ObservedService) -> Sequence[Change]:
    """What is not as we left it.  What was not known, or cannot be seen now, is no change."""
    if not _tells(observed) or observed.observed_at <= baseline.at:
        return ()
    if observed.presence is Presence.STOPPED_BY_OTHER:
        if baseline.stopped is not False:
            return ()
        return (Change(field=ForeignField.STATE, before="running", after="stopped"),)
    found = []
    if baseline.replicas is not None and observed.total != baseline.replicas:
        found.append(Change(field=ForeignField.REPLICAS, before=str(baseline.replicas), after=str(observed.total)))
    if baseline.version and observed.version and observed.version != baseline.version:
        found.append(Change(field=ForeignField.VERSION, before=baseline.version, after=observed.version))
    return found


def _tells(observed: ObservedService) -> bool:
    """Whether a look says what the substrate is set to."""
    return observed.status is not ServiceStatus.UNKNOWN and observed.presence in (
        Presence.STARTED,
        Presence.STOPPED_BY_OTHER,
    )


def left_by(before: Baseline | None, service: str, kind: str, params: Mapping[str, JsonValue], at: Micros) -> Baseline:
    """What an acknowledged action of ours left, as far as it says so; the rest is for the next look to tell."""
    old = before or Baseline(service=service)
    if kind == Kind.SCALE:
        return Baseline(service=service, replicas=int(params["replicas"]), stopped=old.stopped, at=at)
    if kind == Kind.STOP:
        return Baseline(service=service, stopped=True, at=at)
    if kind == Kind.RESTART:
        return Baseline(service=service, replicas=old.replicas, stopped=old.stopped, at=at)
    if kind in (Kind.DEPLOY, Kind.ROLLBACK):
        return Baseline(service=service, replicas=old.replicas, stopped=False, at=at)
    return Baseline(service=service, stopped=False, at=at)
