"""Looking at the fleet, with the store's time on every look.

The time of an observation is read from the store before any observer is asked, so that it can be compared with
commits.  A failing observer leaves its services unobserved; it never makes them down.  The last look is kept in memory
for people (status, explain); no rule reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

import structlog

from fleetwarden.controllers.event_sight import told_by_events
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock

__all__ = ["SLOW_MIN_S", "Look", "Sightings"]

log = structlog.get_logger(__name__)
SLOW_MIN_S = 10.0  # an observer that took no longer is not slow, however short the interval


class Look:
    """One look: when it began (store time), what was seen, which observers failed, why, and with what error, and which
    answered too slowly, in words.

    `told` is what events say of services that were not seen: a status, and no evidence of counts or versions.
    """

    def __init__(
        self,
        at: Micros,
        seen: Mapping[str, ObservedService],
        failed: Mapping[str, str],
        errors: Mapping[str, str] = {},
        told: Mapping[str, ObservedService] = {},
        slow: Mapping[str, str] = {},
    ) -> None:
        self.told = told
        self.at = at
        self.seen = seen
        self.failed = failed
        self.errors = errors
        self.slow = slow

    def of(self, name: str) -> ObservedService | None:
        """What is known of a service's state: as it was seen, else as events tell."""
        return self.seen.get(name) or self.told.get(name)


class Sightings:
    """All observers of this plane behind one bulk call.

    `max_age_s`: an answer older than this is no evidence, however it came to be so old (a cache, a stuck probe).
    `clock`, `slow_s`: an observer that takes longer for one answer is slow; without a clock nobody is timed.
    `published`: what planes of other hosts have published of these services, in the transaction that tells the time.
    """

    def __init__(
        self,
        store: Store,
        observers: Iterable[FleetObserver],
        *,
        max_age_s: float,
        clock: Clock | None = None,
        slow_s: float = SLOW_MIN_S,
        published: Callable[[Tx, Sequence[Service]], Mapping[str, ObservedService]] | None = None,
    ) -> None:
        self._store = store
        self._max_age: Micros = int(max_age_s * SECOND)
        self._published = published
        self._clock = clock
        self._slow_s = max(slow_s, SLOW_MIN_S)
        self.observers = tuple(observers)
        self._lock = Lock()
        self._last: dict[str, ObservedService] = {}

    def look(self, services: Sequence[Service]) -> Look:
        """Observe these services now.  Where several observers answer, the freshest answer counts.

        Raises StoreUnavailable if the store's time cannot be read.
        """
        at, elsewhere = self._store.read(lambda tx: (tx.now(), self._of_others(tx, services)))
        seen = {name: one for name, one in elsewhere.items() if at - self._max_age <= one.observed_at <= at}
        failed: dict[str, str] = {}
        errors: dict[str, str] = {}
        slow: dict[str, str] = {}
        for observer in self.observers:
            mine = [one for one in services if one.substrate in observer.substrates]
            if not mine:
                continue
            began = self._monotonic()
            try:
                answers = observer.observe(mine, at)
            except FleetError as error:
                failed[observer.name], errors[observer.name] = str(error), type(error).__name__
                continue
            except Exception as error:  # an observer may be anybody's code, and must not blind the others
                log.exception("observer failed", observer=observer.name)
                failed[observer.name] = f"{type(error).__name__}: {error}"
                errors[observer.name] = type(error).__name__
                continue
            if (took := self._monotonic() - began) > self._slow_s:
                slow[observer.name] = f"its last answer took {took:.0f} s, more than {self._slow_s:.0f} s"
            for name, answer in self._evidence(observer.name, mine, answers, at).items():
                known = seen.get(name)
                if known is None or answer.observed_at > known.observed_at:
                    seen[name] = answer
        served = {substrate for observer in self.observers for substrate in observer.substrates}
        told = self._told_of([one for one in services if one.name not in seen and one.substrate not in served], at)
        with self._lock:
            for one in services:
                if (known := seen.get(one.name) or told.get(one.name)) is not None:
                    self._last[one.name] = known
        return Look(at, seen, failed, errors, told, slow)

    def _told_of(self, unseen: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        """What events say of services that nothing looks at; where an observer is blind, nothing else fills in.

        Raises StoreUnavailable.
        """
        if not unseen:
            return {}
        return self._store.read(lambda tx: told_by_events(tx, unseen, at - self._max_age))

    def _monotonic(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    def _of_others(self, tx: Tx, services: Sequence[Service]) -> Mapping[str, ObservedService]:
        return {} if self._published is None else self._published(tx, services)

    def _evidence(
        self, observer: str, asked: Sequence[Service], answers: Mapping[str, ObservedService], at: Micros
    ) -> Mapping[str, ObservedService]:
        """The answers that are evidence: about what was asked, dated no later than the question, and fresh enough.

        The others leave their services unobserved: an answer that cannot be right proves nothing in either direction.
        """
        names = {one.name for one in asked}
        kept: dict[str, ObservedService] = {}
        for name, answer in answers.items():
            if name in names and answer.name == name and at - self._max_age <= answer.observed_at <= at:
                kept[name] = answer
            else:
                log.warning("no evidence", observer=observer, service=name, age_us=at - answer.observed_at)
        return kept

    def asked(self, services: Sequence[Service]) -> dict[str, frozenset[str]]:
        """The observers that are asked about these services, with the substrates that each serves."""
        used = {one.substrate for one in services}
        return {one.name: one.substrates for one in self.observers if one.substrates & used}

    def look_at(self, service: Service) -> ObservedService | None:
        """One service, now: as it is seen or else, where nothing looks at it, as events tell."""
        return self.look([service]).of(service.name)

    def seen(self, service: Service) -> ObservedService | None:
        """One service, now, by direct evidence alone: what an outcome is settled by."""
        return self.look([service]).seen.get(service.name)

    def last(self) -> Mapping[str, ObservedService]:
        """The last answer for each service that was ever seen, for people to read; check its age."""
        with self._lock:
            return dict(self._last)
