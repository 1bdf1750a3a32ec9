"""A bound on every call that reaches out, whatever is behind the port.

An adapter keeps its own deadlines; this decorator is for when it cannot: a driver that hangs, a disk that does not
answer.  The call runs on a daemon thread and is given up when its time is over, so that it can hold neither the loop
nor the end of the plane.  A given-up action is an unknown outcome, never a failure, for its effect may still land;
until its thread has really ended, no other action on the same target is begun.  A given-up look is repeated later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

import structlog

from fleetwarden.domain.actions import ActionRequest, Outcome
from fleetwarden.domain.errors import NotCalled, Retryable
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.notify_file import Target
from fleetwarden.ports.actuation import ActuationCall, FleetActuator
from fleetwarden.ports.evidence import EvidenceSource, InstanceEvidence
from fleetwarden.ports.notices import Channel, Message
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.system import Clock, Notice, Notifier

__all__ = ["DeadlineActuator", "DeadlineChannel", "DeadlineEvidence", "DeadlineNotifier", "DeadlineObserver"]

log = structlog.get_logger(__name__)
T = TypeVar("T")


class _Call(Generic[T]):
    """One call on a thread of its own."""

    def __init__(self, name: str, function: Callable[[], T], ended: Callable[[_Call[T]], None]) -> None:
        self.done = Event()
        self.ended = False  # set by `ended`'s owner, under its lock
        self.error: BaseException | None = None
        self._result: list[T] = []
        self._function = function
        self._ended = ended
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin.  Raises RuntimeError if this process may have no further thread; then nothing was begun."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asked, as if there were no thread between
            self.error = error
        self._ended(self)
        self.done.set()

    def answer(self) -> T:
        """What the call returned; raises what it raised.  Only once it is done."""
        if self.error is not None:
            raise self.error
        return self._result[0]


class DeadlineActuator:
    """A FleetActuator whose calls end.

    A call is given up `slack_s` after the latest moment at which its adapter says an effect may land: its deadline plus
    its lateness bound.  `refusal` and `deadline_s` are look-ups and go straight through.
    """

    def __init__(self, clock: Clock, inner: FleetActuator, *, slack_s: float = 1.0) -> None:
        self._clock = clock
        self._inner = inner
        self._slack_s = slack_s
        self._lock = Lock()
        self._running: dict[str, _Call[Outcome]] = {}
        self.substrate = inner.substrate
        self.kinds = inner.kinds
        self.simulates = inner.simulates
        self.lateness_s = inner.lateness_s
        self.acknowledged_is_final = inner.acknowledged_is_final

    def deadline_s(self, request: ActionRequest, service: Service) -> float:
        return self._inner.deadline_s(request, service)

    def refusal(self, request: ActionRequest, service: Service) -> str | None:
        return self._inner.refusal(request, service)

    def actuate(self, call: ActuationCall) -> Outcome:
        """See FleetActuator; besides, raises NotCalled while an earlier, given-up call on this target still runs."""
        target = call.request.target
        with self._lock:
            if target in self._running:
                raise NotCalled(f"an earlier action on {target} was given up and has not ended yet")
            running = _Call(f"actuate-{target}", lambda: self._inner.actuate(call), lambda _: self._end(target))
            try:
                running.start()
            except RuntimeError as error:
                raise NotCalled(f"no thread is left for an action on {target}: {error}") from error
            self._running[target] = running
        left = call.deadline + (self._inner.lateness_s or 0.0) + self._slack_s - self._clock.monotonic()
        if self._clock.wait(running.done, max(0.0, left)):
            return running.answer()
        log.error("action given up", target=target, kind=call.request.kind, key=call.key)
        detail = f"{call.request.kind} {target} did not come back in time; it may or may not have been carried out"
        return Outcome(ok=False, unknown_outcome=True, code="deadline", detail=detail)

    def _end(self, target: str) -> None:
        with self._lock:
            del self._running[target]


class DeadlineObserver:
    """A FleetObserver whose looks end.

    `bound_s`: how long one look may take.  `abandoned_max`: with so many given-up looks still running no further one is
    begun, so that an observer that hangs costs a bounded number of threads.
    """

    def __init__(self, clock: Clock, inner: FleetObserver, *, bound_s: float = 10.0, abandoned_max: int = 2) -> None:
        self._clock = clock
        self._inner = inner
        self._bound_s = bound_s
        self._abandoned_max = abandoned_max
        self._lock = Lock()
        self._abandoned: set[_Call[Mapping[str, ObservedService]]] = set()
        self.name = inner.name
        self.substrates = inner.substrates

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        """See FleetObserver; raises Retryable for a look that did not come back in time."""
        with self._lock:
            if len(self._abandoned) >= self._abandoned_max:
                raise Retryable(f"observer {self.name} has {len(self._abandoned)} looks hanging", code="deadline")
        running = _Call(f"observe-{self.name}", lambda: self._inner.observe(services, at), self._end)
        try:
            running.start()
        except RuntimeError as error:
            raise Retryable(f"no thread is left for observer {self.name}: {error}") from error
        if self._clock.wait(running.done, self._bound_s):
            return running.answer()
        with self._lock:
            if not running.ended:
                self._abandoned.add(running)
        log.warning("look given up", observer=self.name, services=len(services))
        raise Retryable(f"observer {self.name} did not answer within {self._bound_s:g} s", code="deadline")

    def _end(self, call: _Call[Mapping[str, ObservedService]]) -> None:
        with self._lock:
            call.ended = True
            self._abandoned.discard(call)


class DeadlineEvidence:
    """An EvidenceSource whose captures end: an action waits at most `bound_s` for them, and then goes without.

    `abandoned_max`: with so many given-up captures still running no further one is begun.
    """

    def __init__(self, clock: Clock, inner: EvidenceSource, *, bound_s: float = 1.0, abandoned_max: int = 4) -> None:
        self._clock = clock
        self._inner = inner
        self._bound_s = bound_s
        self._abandoned_max = abandoned_max
        self._lock = Lock()
        self._abandoned: set[_Call[Sequence[InstanceEvidence]]] = set()
        self.substrate = inner.substrate

    def capture(
        self, service: Service, only: frozenset[str] | None, *, lines_max: int, bytes_max: int
    ) -> Sequence[InstanceEvidence]:
        """See EvidenceSource; raises Retryable for a capture that did not come back in time."""
        with self._lock:
            if len(self._abandoned) >= self._abandoned_max:
                raise Retryable(f"{len(self._abandoned)} captures of {self.substrate} are hanging", code="deadline")
        running = _Call(
            f"capture-{service.name}",
            lambda: self._inner.capture(service, only, lines_max=lines_max, bytes_max=bytes_max),
            self._end,
        )
        try:
            running.start()
        except RuntimeError as error:
            raise Retryable(f"no thread is left for a capture of {service.name}: {error}") from error
        if self._clock.wait(running.done, self._bound_s):
            return running.answer()
        with self._lock:
            if not running.ended:
                self._abandoned.add(running)
        raise Retryable(f"the output of {service.name} could not be read within {self._bound_s:g} s", code="deadline")

    def _end(self, call: _Call[Sequence[InstanceEvidence]]) -> None:
        with self._lock:
            call.ended = True
            self._abandoned.discard(call)


class DeadlineChannel:
    """A Channel whose messages end: one that does not is given up, and may still arrive.

    `bound_s`: how long one message may take.  `abandoned_max`: with so many given-up ones of a target still running no
    further one is begun for it, so that a target that hangs costs a bounded number of threads, and no other target any.
    """

    def __init__(self, clock: Clock, inner: Channel, *, bound_s: float = 10.0, abandoned_max: int = 2) -> None:
        self._clock = clock
        self._inner = inner
        self._bound_s = bound_s
        self._abandoned_max = abandoned_max
        self._lock = Lock()
        self._abandoned: dict[str, set[_Call[None]]] = {}

    def send(self, target: Target, message: Message) -> None:
        """See Channel; raises Retryable for a message that did not come back in time."""
        with self._lock:
            hanging = len(self._abandoned.get(target.name, ()))
        if hanging >= self._abandoned_max:
            raise Retryable(f"{target.name} has {hanging} messages hanging", code="deadline")
        running = _Call(
            f"message-{target.name}",
            lambda: self._inner.send(target, message),
            lambda call: self._end(target.name, call),
        )
        try:
            running.start()
        except RuntimeError as error:
            raise Retryable(f"no thread is left for a message to {target.name}: {error}") from error
        if self._clock.wait(running.done, self._bound_s):
            running.answer()
            return
        with self._lock:
            if not running.ended:
                self._abandoned.setdefault(target.name, set()).add(running)
        raise Retryable(f"{target.name} did not answer within {self._bound_s:g} s", code="deadline")

    def _end(self, name: str, call: _Call[None]) -> None:
        with self._lock:
            call.ended = True
            self._abandoned.get(name, set()).discard(call)


class DeadlineNotifier:
    """A Notifier whose notices end: one that does not come back in time was not delivered, and is told again.

    No further notice is begun while a given-up one still runs.
    """

    def __init__(self, clock: Clock, inner: Notifier, *, bound_s: float = 10.0) -> None:
        self._clock = clock
        self._inner = inner
        self._bound_s = bound_s
        self._hanging: _Call[bool] | None = None
        self.name = inner.name

    def notify(self, notice: Notice) -> bool:
        """See Notifier."""
        if self._hanging is not None and not self._hanging.done.is_set():
            return False
        running = _Call(f"notify-{self.name}", lambda: self._inner.notify(notice), lambda _: None)
        running.start()
        if self._clock.wait(running.done, self._bound_s):
            self._hanging = None
            return running.answer()
        self._hanging = running
        log.warning("notice given up", notifier=self.name)
        return False
