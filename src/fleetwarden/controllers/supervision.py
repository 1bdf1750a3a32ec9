"""What the plane last learned of each thing it depends on, as evidence with an age.

Controllers report what they met; nobody pings for the sake of pinging.  Only `healthy` lets a pass act.  A rejected
policy file with a good one in force is healthy and says so; an unreadable registry is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Lock

from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.health import DependencyHealth, FleetHealthEvidence, HealthStatus, assess
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Store

__all__ = ["Supervision"]


class Supervision:
    """Collects dependency evidence.  `max_age_s`: two intervals of the reconciler."""

    def __init__(self, store: Store, *, max_age_s: float) -> None:
        self._store = store
        self._max_age: Micros = int(max_age_s * SECOND)
        self._lock = Lock()
        self._known: dict[str, DependencyHealth] = {}
        self._overdue: dict[str, str] = {}

    def observed(self, at: Micros, served: Collection[str], failed: Mapping[str, str]) -> None:
        """Record one look: observers that were asked, and those that failed with their reason.

        One that is not asked any more is not in use: what was last known of it is forgotten.
        """
        asked = {f"observer:{name}" for name in served}
        with self._lock:
            self._known = {name: one for name, one in self._known.items() if not one.observer or name in asked}
        for name in served:
            trouble = failed.get(name)
            self._put(f"observer:{name}", at, trouble, observer=True)

    def configured(self, at: Micros, configuration: Configuration) -> None:
        """Record one reading of the files."""
        fleet = configuration.fleet
        notes = tuple(str(problem) for problem in fleet.problems)
        self._put("registry", at, fleet.error or None, authority=True, notes=notes)
        rejected = tuple(f"rejected, the last good one stays in force: {one}" for one in configuration.policy_problems)
        self._put("policy", at, None, authority=True, notes=rejected)

    def overdue(self, name: str, why: str) -> None:
        """A controller's thread is late or dead; "" clears it."""
        with self._lock:
            if why:
                self._overdue[name] = why
            else:
                self._overdue.pop(name, None)

    def evidence(self) -> FleetHealthEvidence:
        """The envelope now.  Never raises: an unreadable store is the first thing it says."""
        now, store = self._store_now()
        with self._lock:
            known = [one for one in self._known.values() if one.name != "store"]
            late = [
                DependencyHealth(
                    name=f"controller:{name}",
                    status=HealthStatus.DEGRADED,
                    checked_at=now,
                    max_age_us=self._max_age,
                    diagnostics=(why,),
                )
                for name, why in sorted(self._overdue.items())
            ]
        return assess([store, *known, *late], now)

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
        notes: tuple[str, ...] = (),
    ) -> None:
        with self._lock:
            before = self._known.get(name)
            self._known[name] = DependencyHealth(
                name=name,
                status=HealthStatus.HEALTHY if trouble is None else HealthStatus.UNAVAILABLE,
                checked_at=at,
                last_success_at=at if trouble is None else (before.last_success_at if before else None),
                max_age_us=self._max_age,
                authority=authority,
                observer=observer,
                diagnostics=(*(() if trouble is None else (trouble,)), *notes),
            )
