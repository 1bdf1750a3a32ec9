"""What the plane last learned of each thing it depends on, as evidence with an age.

Controllers report what they met; nobody pings for the sake of pinging.  Only `healthy` lets a pass act, and each
service is judged by what it rests on: an observer of another substrate does not count for it.  A rejected policy file
with a good one in force is healthy and says so; an unreadable registry is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import structlog

from fleetwarden.controllers.sightings import Look
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.health import DependencyHealth, FleetHealthEvidence, HealthStatus, assess, in_scope
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.policy_document import SHIPPED
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Store

__all__ = ["Envelopes", "Supervision"]

log = structlog.get_logger(__name__)
SIGNALS = "signals"
Envelope = Callable[[], FleetHealthEvidence]


class Envelopes:
    """The whole fleet's envelope and each substrate's, all of one moment."""

    def __init__(self, dependencies: Sequence[DependencyHealth], now: Micros, put: FleetHealthEvidence | None) -> None:
        self._dependencies = dependencies
        self._now = now
        self._put = put
        self._known: dict[str, FleetHealthEvidence] = {}
        self.whole = assess(dependencies, now) if put is None else put

    def authorities(self) -> FleetHealthEvidence:
        """What everything rests on: store, policy, registry, and the controllers; no observer, no signal."""
        if self._put is not None:
            return self._put
        return assess([one for one in self._dependencies if not one.observer and not one.signals], self._now)

    def of(self, substrate: str) -> FleetHealthEvidence:
        """What a service on that substrate rests on.  An envelope that was put in from outside covers every scope."""
        if self._put is not None:
            return self._put
        if substrate not in self._known:
            self._known[substrate] = assess(in_scope(self._dependencies, substrate), self._now)
        return self._known[substrate]


class Supervision:
    """Collects dependency evidence.  `max_age_s`: two intervals of the reconciler.

    `envelope`: where a deployment judges the plane's health by itself, it counts instead of what is collected here, for
    every service; one that raises, or is older than `max_age_s`, counts as unavailable.
    """

    def __init__(self, store: Store, *, max_age_s: float, envelope: Envelope | None = None) -> None:
        self._store = store
        self._envelope = envelope
        self._max_age: Micros = int(max_age_s * SECOND)
        self._signals_age = self._max_age
        self._lock = Lock()
        self._known: dict[str, DependencyHealth] = {}
        self._signals: DependencyHealth | None = None
        self._overdue: dict[str, str] = {}

    def looked(self, look: Look, served: Mapping[str, frozenset[str]], *, whole: bool = True) -> None:
        """Record one look at services; see `observed`."""
        self.observed(look.at, served, look.failed, errors=look.errors, slow=look.slow, whole=whole)

    def observed(
        self,
        at: Micros,
        served: Mapping[str, frozenset[str]],
        failed: Mapping[str, str],
        *,
        errors: Mapping[str, str] = {},
        slow: Mapping[str, str] = {},
        whole: bool = True,
    ) -> None:
        """Record one look: observers that were asked with their substrates, and those that failed with their reason
        (and the class of the error).  `slow`: those that answered too slowly; they are degraded until they do not.

        After a look at the whole fleet, one that was not asked is not in use: what was last known of it is forgotten.
        """
        asked = {f"observer:{name}" for name in served}
        if whole:
            with self._lock:
                self._known = {name: one for name, one in self._known.items() if not one.observer or name in asked}
        for name, substrates in served.items():
            trouble = failed.get(name)
            self._put(
                f"observer:{name}",
                at,
                trouble,
                observer=True,
                substrates=substrates,
                error_class=errors.get(name, "error") if trouble is not None else "",
                slow=slow.get(name, ""),
            )

    def signals_every(self, interval_s: float) -> None:
        """They are read so often, which may be less often than the reconciler looks: known for two intervals."""
        self._signals_age = max(self._max_age, int(2 * interval_s * SECOND))

    def signals(self, at: Micros, trouble: str, *, error_class: str = "") -> None:
        """Record one batch of signals: "" if the source answered.  It holds nothing but the autoscaler."""
        known = self._signals
        self._signals = DependencyHealth(
            name=SIGNALS,
            status=HealthStatus.UNAVAILABLE if trouble else HealthStatus.HEALTHY,
            checked_at=at,
            last_success_at=(known.last_success_at if known else None) if trouble else at,
            max_age_us=self._signals_age,
            signals=True,
            error_class=error_class,
            diagnostics=(trouble,) if trouble else (),
        )

    def configured(self, at: Micros, configuration: Configuration) -> None:
        """Record one reading of the files."""
        fleet = configuration.fleet
        notes = tuple(str(problem) for problem in fleet.problems)
        self._put(
            "registry",
            at,
            fleet.error or None,
            authority=True,
            notes=notes,
            error_class="unreadable" if fleet.error else "",
        )
        shipped = configuration.policy.digest == SHIPPED.digest  # no file was ever good
        stays = "the shipped default is in force" if shipped else "the last good one stays in force"
        rejected = tuple(f"rejected, {stays}: {one}" for one in configuration.policy_problems)
        self._put("policy", at, None, authority=True, notes=rejected)

    def overdue(self, name: str, why: str) -> None:
        """A controller's thread is late or dead; "" clears it."""
        with self._lock:
            if why:
                self._overdue[name] = why
            else:
                self._overdue.pop(name, None)

    def evidence(self) -> FleetHealthEvidence:
        """The whole envelope now.  Never raises: an unreadable store is the first thing it says."""
        return self.envelopes().whole

    def envelopes(self) -> Envelopes:
        """All envelopes of this moment, from one reading of the store's time.  Never raises."""
        now, store = self._store_now()
        with self._lock:
            known = [one for one in self._known.values() if one.name != "store"]
            late = [
                DependencyHealth(
                    name=f"controller:{name}",
                    status=HealthStatus.DEGRADED,
                    checked_at=now,
                    max_age_us=self._max_age,
                    error_class="overdue",
                    diagnostics=(why,),
                )
                for name, why in sorted(self._overdue.items())
            ]
        return Envelopes(
            [store, *known, *late, *([] if self._signals is None else [self._signals])],
            now,
            None if self._envelope is None else self._told(self._envelope, now),
        )

    def _told(self, envelope: Envelope, now: Micros) -> FleetHealthEvidence:
        """What the deployment says of our health; nothing, if it says nothing now."""
        try:
            told = envelope()
        except Exception as error:  # it may be anybody's code; not knowing is not being well
            log.exception("injected health failed")
            return assess([self._silent(now, type(error).__name__, str(error))], now)
        age = now - told.generated_at
        if age > self._max_age:
            return assess([self._silent(now, "stale", f"the injected envelope is {age / SECOND:.0f} s old")], now)
        return told

    def _silent(self, now: Micros, error_class: str, why: str) -> DependencyHealth:
        return DependencyHealth(
            name="injected",
            status=HealthStatus.UNAVAILABLE,
            checked_at=now,
            max_age_us=self._max_age,
            error_class=error_class,
            diagnostics=(why,),
        )

    def _store_now(self) -> tuple[Micros, DependencyHealth]:
        try:
            now = self._store.read(lambda tx: tx.now())
        except FleetError as error:
            with self._lock:
                last = self._known.get("store")
                now = max((one.checked_at for one in self._known.values()), default=0)
            return now, DependencyHealth(
                name="store",
                status=HealthStatus.UNAVAILABLE,
                checked_at=now,
                last_success_at=last.last_success_at if last else None,
                max_age_us=self._max_age,
                authority=True,
                error_class=type(error).__name__,
                diagnostics=(str(error),),
            )
        self._put("store", now, None, authority=True)
        with self._lock:
            return now, self._known["store"]

    def _put(
        self,
        name: str,
        at: Micros,
        trouble: str | None,
        *,
        authority: bool = False,
        observer: bool = False,
        substrates: frozenset[str] | None = None,
        error_class: str = "",
        notes: tuple[str, ...] = (),
        slow: str = "",
    ) -> None:
        well = HealthStatus.DEGRADED if slow else HealthStatus.HEALTHY
        told = tuple(one for one in (trouble, slow) if one)
        with self._lock:
            before = self._known.get(name)
            self._known[name] = DependencyHealth(
                name=name,
                status=well if trouble is None else HealthStatus.UNAVAILABLE,
                checked_at=at,
                last_success_at=at if trouble is None else (before.last_success_at if before else None),
                max_age_us=self._max_age,
                authority=authority,
                observer=observer,
                substrates=substrates,
                error_class=error_class or ("slow" if slow else ""),
                diagnostics=(*told, *notes),
            )
