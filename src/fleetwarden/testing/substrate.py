"""A substrate in memory: observer and actuator in one, with the truth about every call kept beside what it answers.

A test says what becomes of a call (`Delivery`): it is refused, its answer is lost, it arrives late or twice, it gets
only part of the way.  Whatever it is told, it keeps the promises of its port: nothing lands later than the lateness
that it declares, a refusal changes nothing, an acknowledged call whose acknowledgement is final is not delivered
again, and an observation carries the time at which the caller began to look.  `log` is the truth and the product never
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from threading import Event, RLock
from typing import Any, TypeAlias

from fleetwarden.domain.actions import ActionRequest, Kind, Outcome, Record
from fleetwarden.domain.errors import NotCalled, Retryable
from fleetwarden.domain.fleet import (
    InstanceStatus,
    ObservedInstance,
    ObservedService,
    Presence,
    Service,
    ServiceStatus,
)
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.versions import NOT_UP, ROLLOUTS
from fleetwarden.ports.actuation import ActuationCall
from fleetwarden.ports.evidence import InstanceEvidence
from fleetwarden.ports.system import Clock

__all__ = ["Answer", "Delivery", "Effect", "FakeSubstrate"]

_Step: TypeAlias = tuple[int, Callable[[], object]]  # the instance, and what happens to it
KINDS = frozenset({Kind.RESTART, Kind.SCALE, Kind.STOP, Kind.START, Kind.DEPLOY, Kind.ROLLBACK})


class Answer(StrEnum):
    """What the caller gets to hear, if the request arrives in time."""

    OK = "ok"
    REFUSED = "refused"
    LOST = "lost"  # it waits until its deadline and never hears


class Delivery(Record):
    """What becomes of one call.  As it stands: carried out at once and acknowledged.

    `travel_s`: how long the request is on its way; it goes on its way even if the caller dies.  `lands`: false, and the
    request is lost.  `doubled_s`: delivered once more, this long after the first time.  `instances`: the effect stops
    after so many instances.  Arrivals are kept within the call's deadline plus the substrate's lateness.
    """

    answer: Answer = Answer.OK
    travel_s: float = 0.0
    lands: bool = True
    doubled_s: float | None = None
    instances: int | None = None


class Effect(Record):
    """One line of the truth.  `what`: called | refused | touched (one instance) | landed (all of it) | missed (nothing
    left to act on) | cut (stopped part of the way) | not_up (a rollout met a broken version) | dropped (the request was
    lost) | answered (the caller was told; `detail` says what).

    `at` is on the clock's monotonic scale, in seconds.  `late` marks what arrived when nobody waited any more.
    """

    at: float
    what: str
    key: str
    kind: str
    target: str
    params: Mapping[str, JsonValue]
    instance: int | None = None
    late: bool = False
    detail: str = ""


@dataclass(slots=True)
class _Instance:
    identity: str
    key: str
    started_at: Micros
    ready_at: float
    version: str = ""
    alive: bool = True
    well: bool = True


@dataclass(slots=True)
class _State:
    presence: Presence = Presence.NEVER_STARTED
    slots: dict[int, _Instance] = field(default_factory=dict)
    stop_key: str = ""
    version: str = ""  # what was started last, for what is started again
    writer: str = ""  # who set it last, besides us


@dataclass(slots=True, eq=False)
class _Parcel:
    """A request on its way."""

    due: float
    call: ActuationCall
    delivery: Delivery
    waited_for: bool
    arrived: bool = False
    end: str = ""  # how it ended: landed, cut, missed or not_up
    double: _Parcel | None = None  # the same request once more


class FakeSubstrate:
    """Serves the services whose `substrate` it is named after ("" for those without a substrate block).

    `lateness_s`, `acknowledged_is_final`, `deadline_s`: what it declares as an actuator.  `start_s`: how long an
    instance takes to become ready.  `deliver` decides each call's fate.  `at` is told of every point at which another
    thread could run: "observe", "observed", "call", "effect", "sent", "answer"; a test may block or raise there.
    `told` hears every line of the log as it is written.
    """

    simulates = False
    kinds: frozenset[str] = KINDS

    def __init__(
        self,
        clock: Clock,
        substrate: str = "",
        *,
        lateness_s: float | None = 0.0,
        acknowledged_is_final: bool = True,
        deadline_s: float = 5.0,
        start_s: float = 0.0,
        deliver: Callable[[ActuationCall], Delivery] | None = None,
        at: Callable[[str], None] | None = None,
        told: Callable[[Effect], None] | None = None,
    ) -> None:
        self.name = f"fake-{substrate or 'injected'}"
        self.substrate = substrate
        self.substrates = frozenset({substrate})
        self.lateness_s = lateness_s
        self.acknowledged_is_final = acknowledged_is_final
        self.start_s = start_s
        self.log: list[Effect] = []
        self.hidden: set[str] = set()  # left out of every observation
        self.blurred: set[str] = set()  # observed, and nobody can tell whether it is well
        self.failing = ""  # why observing fails altogether; "" = it does not
        self.broken: set[str] = set()  # versions whose instances end as soon as they are started
        self.said: dict[tuple[str, int], Sequence[str]] = {}  # the output of a service's slot
        self.mute = ""  # why no evidence can be had; "" = it can
        self._clock = clock
        self._deadline_s = deadline_s
        self._deliver = deliver or (lambda _: Delivery())
        self._at = at or (lambda _: None)
        self._told = told or (lambda _: None)
        self._lock = RLock()
        self._states: dict[str, _State] = {}
        self._wire: list[_Parcel] = []
        self._made = 0
        self._never = Event()

    # ------------------------------------------------------------------------------------------------ observer
    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        self._at("observe")
        if self.failing:
            raise Retryable(f"{self.name} cannot be observed: {self.failing}")
        with self._lock:
            self.arrive()
            mine = [one for one in services if one.substrate == self.substrate and one.name not in self.hidden]
            seen = {one.name: self._seen(one, at) for one in mine}
        self._at("observed")
        return seen

    def _seen(self, service: Service, at: Micros) -> ObservedService:
        state = self._state(service.name)
        instances = tuple(self._one(service.name, index, state.slots[index]) for index in sorted(state.slots))
        ready = sum(one.status is InstanceStatus.UP for one in instances)
        starting = any(one.status is InstanceStatus.STARTING for one in instances)
        if service.name in self.blurred:
            status = ServiceStatus.UNKNOWN
        elif state.presence is not Presence.STARTED:
            status = ServiceStatus.DOWN
        elif ready == len(instances):
            status = ServiceStatus.UP
        else:
            status = ServiceStatus.DEGRADED if ready or starting else ServiceStatus.DOWN
        versions = {one.version for one in state.slots.values()} or {state.version}
        return ObservedService(
            name=service.name,
            observed_at=at,
            source=self.name,
            status=status,
            presence=state.presence,
            ready=ready,
            existing=sum(one.alive for one in state.slots.values()),
            total=len(instances),
            version=next(iter(versions)) if len(versions) == 1 else "",
            instances=instances,
            stop_key=state.stop_key,
            writer=state.writer,
        )

    def _one(self, name: str, index: int, one: _Instance) -> ObservedInstance:
        if name in self.blurred:
            status = InstanceStatus.UNKNOWN
        elif not one.alive or not one.well:
            status = InstanceStatus.DOWN
        else:
            status = InstanceStatus.UP if self._clock.monotonic() >= one.ready_at else InstanceStatus.STARTING
        return ObservedInstance(
            id=str(index),
            status=status,
            started_at=one.started_at,
            identity=one.identity,
            key=one.key,
            version=one.version,
        )

    # ------------------------------------------------------------------------------------------------ evidence
    def capture(
        self, service: Service, only: frozenset[str] | None, *, lines_max: int, bytes_max: int
    ) -> Sequence[InstanceEvidence]:
        """See EvidenceSource; what `said` holds of a slot is its output."""
        if self.mute:
            raise Retryable(f"{self.name} gives no evidence: {self.mute}")
        with self._lock:
            slots = sorted(self._state(service.name).slots.items())
            return [
                InstanceEvidence(
                    id=str(index),
                    status="alive" if one.alive else "gone",
                    version=one.version,
                    started_at=one.started_at,
                    lines=tuple(line[-bytes_max:] for line in self.said.get((service.name, index), ()))[-lines_max:],
                )
                for index, one in slots
                if only is None or str(index) in only
            ]

    # ------------------------------------------------------------------------------------------------ actuator
    def deadline_s(self, request: ActionRequest, service: Service) -> float:  # noqa: ARG002 - the port's
        return self._deadline_s

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        if service.substrate != self.substrate:
            return f"{service.name} is not served by {self.name}"
        if request.kind in ROLLOUTS and not request.params.get("version"):
            return f"{request.kind} {service.name} needs the param 'version'"
        return None if request.kind in self.kinds else f"{request.kind} is not served by {self.name}"

    def actuate(self, call: ActuationCall) -> Outcome:
        self._note(call, "called")
        self._at("call")
        if self._clock.monotonic() >= call.deadline:
            self._note(call, "answered", detail="not_called")
            raise NotCalled(f"the deadline of {call.key} had passed before anything was begun")
        try:
            delivery = self._deliver(call)
        except Exception:
            self._note(call, "answered", detail="exception")
            raise
        if delivery.doubled_s is not None and self.acknowledged_is_final:
            raise ValueError(f"{self.name} declares that an acknowledged call is not delivered again")
        if delivery.answer is Answer.REFUSED:
            self._note(call, "refused")
            outcome = Outcome(ok=False, code="refused", detail=f"{self.name} refuses")
        else:
            outcome = self._send(call, delivery)
        self._at("answer")
        self._note(call, "answered", detail="ok" if outcome.ok else outcome.code)
        return outcome

    def _send(self, call: ActuationCall, delivery: Delivery) -> Outcome:
        if not delivery.lands:
            self._note(call, "dropped")
            return _unheard()
        parcel = self._post(call, delivery, delivery.travel_s, waited_for=True)
        if delivery.doubled_s is not None:
            after_s = delivery.travel_s + delivery.doubled_s
            parcel.double = self._post(call, delivery, after_s, waited_for=False)
        if delivery.travel_s > 0:
            self._at("sent")
            self._wait_for(parcel, call.deadline)
        else:
            self._land(parcel, pausing=True)
        parcel.waited_for = False
        if not parcel.arrived or delivery.answer is Answer.LOST:
            return _unheard()
        if parcel.end == "missed":
            return Outcome(ok=False, code="nothing_there", detail="there was nothing to act on")
        if parcel.end == "cut":
            return Outcome(ok=False, code="partial", detail="it stopped part of the way")
        if parcel.end == NOT_UP:
            return Outcome(ok=False, code="partial", detail="it did not come up", evidence={"failures": [NOT_UP]})
        started = self._state(call.request.target).version if call.request.kind == Kind.START else ""
        return Outcome(ok=True, detail="done", evidence={"version": started} if started else {})

    def _post(self, call: ActuationCall, delivery: Delivery, after_s: float, *, waited_for: bool) -> _Parcel:
        due = self._clock.monotonic() + after_s
        if self.lateness_s is not None:
            due = min(due, call.deadline + self.lateness_s)
        parcel = _Parcel(due, call, delivery, waited_for)
        with self._lock:
            self._wire.append(parcel)
        return parcel

    def _wait_for(self, parcel: _Parcel, deadline: float) -> None:
        while not parcel.arrived:
            now = self._clock.monotonic()
            if now >= min(parcel.due, deadline):
                self.arrive()
                return
            self._clock.wait(self._never, min(parcel.due, deadline) - now)

    def arrive(self) -> None:
        """Let everything that is on its way and due land now.  Called on every look; a test may call it between."""
        if not self._wire:
            return
        with self._lock:
            now = self._clock.monotonic()
            for parcel in [one for one in self._wire if one.due <= now]:
                self._land(parcel, pausing=False)

    @property
    def on_its_way(self) -> Sequence[str]:
        """Keys of the requests that have not landed yet; a doubled one is listed for each delivery."""
        with self._lock:
            return [one.call.key for one in self._wire]

    def _land(self, parcel: _Parcel, *, pausing: bool) -> None:
        with self._lock:
            if parcel not in self._wire:
                return
            self._wire.remove(parcel)
            call, late = parcel.call, not parcel.waited_for
            steps = self._steps(call)
            parcel.arrived = True
        limit = parcel.delivery.instances
        parcel.end = "landed" if steps else "missed"
        for done, (index, change) in enumerate(steps):
            if pausing and done:
                self._at("effect")  # between two instances: a caller in the same process can die here
            too_late = pausing and self._clock.monotonic() >= call.deadline
            if too_late or (limit is not None and done >= limit):
                parcel.end = "cut"
                break
            with self._lock:
                change()
                self._note(call, "touched", instance=index, late=late)
            if call.request.kind in ROLLOUTS and not self._states[call.request.target].slots[index].alive:
                parcel.end = NOT_UP
                break
        with self._lock:
            if parcel.end != "landed" and parcel.double in self._wire:
                self._wire.remove(parcel.double)  # a failure that is reported is one that stays
        self._note(call, parcel.end, late=late)

    # ------------------------------------------------------------------------------------------------ effects
    def _steps(self, call: ActuationCall) -> list[_Step]:
        """What the call would do now: one change for each instance, in order."""
        state, params = self._state(call.request.target), call.request.params
        kind, key = call.request.kind, call.key

        def start(indexes: Iterable[int], version: str = "") -> list[_Step]:
            return [(index, partial(self._start, state, index, key, version)) for index in indexes]

        def end(indexes: Iterable[int]) -> list[_Step]:
            return [(index, partial(state.slots.pop, index)) for index in indexes]

        slots = sorted(state.slots)
        if kind in ROLLOUTS:
            version = str(params["version"])
            return start((i for i in slots if state.slots[i].version != version or not state.slots[i].alive), version)
        if kind == Kind.START:
            wanted = int(params.get("replicas", call.service.replicas))
            state.version = state.version or call.service.version
            return start(i for i in range(wanted) if i not in state.slots or not state.slots[i].alive)
        if kind == Kind.RESTART:
            chosen = slots if "replica" not in params else [int(params["replica"])]
            return start(index for index in chosen if index in state.slots)
        if kind == Kind.SCALE:
            wanted = int(params["replicas"])
            more = start(index for index in range(wanted) if index not in state.slots)
            return more + end(index for index in reversed(slots) if index >= wanted)
        assert kind == Kind.STOP
        *others, last = slots or [-1]  # with the last one gone it is stopped
        return [*end(others), (last, partial(self._stopped, state, last, key))]

    def _start(self, state: _State, index: int, key: str, version: str = "") -> None:
        """A fresh instance in that slot; of the version that it had, or that was started last, unless one is given."""
        self._made += 1
        had = state.slots[index].version if index in state.slots else state.version
        state.version = version or had
        state.presence, state.stop_key = Presence.STARTED, ""
        state.slots[index] = _Instance(
            identity=f"{self.name}-{self._made}",
            key=key,
            started_at=self._clock.now(),
            ready_at=self._clock.monotonic() + self.start_s,
            version=version or had,
            alive=(version or had) not in self.broken,
        )

    @staticmethod
    def _stopped(state: _State, last: int, key: str) -> None:
        state.slots.pop(last, None)
        state.presence, state.stop_key = Presence.STOPPED_BY_US, key

    def _note(self, call: ActuationCall, what: str, **more: Any) -> None:
        request = call.request
        line = Effect(
            at=self._clock.monotonic(),
            what=what,
            key=call.key,
            kind=request.kind,
            target=request.target,
            params=request.params,
            **more,
        )
        self.log.append(line)
        self._told(line)

    # ------------------------------------------------------------------------------------------------ the world
    def boot(self, name: str, replicas: int = 1, *, key: str = "", version: str = "") -> None:
        """Have the service run already, as if it had been started under `key`."""
        with self._lock:
            for index in range(replicas):
                self._start(self._state(name), index, key, version)

    def versions(self, name: str) -> Mapping[int, str]:
        """The truth: the version of each slot."""
        with self._lock:
            return {index: one.version for index, one in sorted(self._state(name).slots.items())}

    def scaled(self, name: str, replicas: int, *, by: str = "") -> None:
        """Somebody else sets the wanted count: slots are made and taken away as by a scale of ours."""
        with self._lock:
            state = self._state(name)
            for index in range(replicas):
                if index not in state.slots:
                    self._start(state, index, "")
            for index in [one for one in state.slots if one >= replicas]:
                del state.slots[index]
            state.presence, state.writer = Presence.STARTED, by

    def stopped(self, name: str, *, by: str = "") -> None:
        """Somebody else stops the service for good."""
        with self._lock:
            state = self._state(name)
            state.slots.clear()
            state.presence, state.stop_key, state.writer = Presence.STOPPED_BY_OTHER, "", by

    def deployed(self, name: str, version: str, *, by: str = "") -> None:
        """Somebody else sets another version; the instances live on."""
        with self._lock:
            state = self._state(name)
            state.version, state.writer = version, by
            for one in state.slots.values():
                one.version = version

    def crash(self, name: str, index: int) -> bool:
        """Kill one instance; returns whether there was a live one.  Its slot stays."""
        return self._change(name, index, lambda one: one.alive, alive=False)

    def revive(self, name: str, index: int) -> bool:
        """Let a dead instance come back without us: a new instance in the same slot, under the same key."""
        with self._lock:
            state = self._state(name)
            one = state.slots.get(index)
            if one is None or one.alive:
                return False
            self._start(state, index, one.key)
            return True

    def sicken(self, name: str, index: int) -> bool:
        """Let a live instance fail its health check."""
        return self._change(name, index, lambda one: one.alive, well=False)

    def heal(self, name: str, index: int) -> bool:
        """Let a sick instance become well by itself."""
        return self._change(name, index, lambda one: not one.well, well=True)

    def instances(self, name: str) -> Mapping[int, bool]:
        """The truth: each slot of the service, and whether it lives and is well."""
        with self._lock:
            return {index: one.alive and one.well for index, one in sorted(self._state(name).slots.items())}

    def presence(self, name: str) -> Presence:
        """The truth: whether the service was started at all."""
        with self._lock:
            return self._state(name).presence

    def _change(self, name: str, index: int, if_: Callable[[_Instance], bool], **to: bool) -> bool:
        with self._lock:
            one = self._state(name).slots.get(index)
            if one is None or not if_(one):
                return False
            for attribute, value in to.items():
                setattr(one, attribute, value)
            return True

    def _state(self, name: str) -> _State:
        return self._states.setdefault(name, _State())


def _unheard() -> Outcome:
    return Outcome(ok=False, unknown_outcome=True, code="timeout", detail="no answer before the deadline")
