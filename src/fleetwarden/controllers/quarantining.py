"""Versions that failed their watch: set aside for their service, kept from every controller, until a person says so.

A quarantine is written with the verdict and read in the transaction that decides, so that nothing slips between.  It
never stops a repair: what runs is restarted in the version that it had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import ActionRequest, Kind
from fleetwarden.domain.deploy_watch import DeployWatch, Quarantine
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.versions import ROLLOUTS, kept_from_start
from fleetwarden.ports.stores import Tx

__all__ = ["Marks", "marks_of", "quarantine", "refused"]


class Marks:
    """One transaction's view: what stands, and when each version was last cleared."""

    def __init__(self, standing: Mapping[tuple[str, str], Quarantine], cleared: Mapping[tuple[str, str], Micros]):
        self._standing: dict[str, dict[str, str]] = defaultdict(dict)
        for (service, version), one in standing.items():
            self._standing[service][version] = one.words
        self._cleared = cleared
        self.services = frozenset(self._standing)

    def of(self, service: str) -> Mapping[str, str]:
        """The versions of a service that are not deployed, and why."""
        return self._standing.get(service, {})

    def forgiven(self, service: str, version: str, since: Micros) -> bool:
        """Whether a person has cleared that version since then."""
        return self._cleared.get((service, version), -1) >= since


def marks_of(tx: Tx) -> Marks:
    """All that stand.  Raises StoreUnavailable."""
    standing = {(one.service, one.version): one for one in tx.quarantines.standing()}
    cleared = {(one.service, one.version): one.cleared_at or 0 for one in tx.quarantines.cleared_last()}
    return Marks(standing, cleared)


def quarantine(tx: Tx, watch: DeployWatch, reason: str) -> Quarantine | None:
    """Set the version of a failed watch aside; None where the watch was of no change of version."""
    if not watch.changes_version or not watch.version:
        return None
    return tx.quarantines.add(watch.service, watch.version, watch_seq=watch.seq, reason=reason)


def refused(tx: Tx, request: ActionRequest, declared: Service | None) -> str:
    """Why this request would start a version that is in quarantine, whoever asks; "" if it would not."""
    starts = request.kind == Kind.START or (request.kind == Kind.SCALE and _from_nothing(request))
    if not (request.kind in ROLLOUTS or starts):
        return ""
    aside = {one.version: one.words for one in tx.quarantines.standing() if one.service == request.target}
    if request.kind in ROLLOUTS:
        return aside.get(str(request.params.get("version", "")), "")
    return "" if declared is None else kept_from_start(declared, _ran(request.evidence.facts), aside)


def _from_nothing(request: ActionRequest) -> bool:
    """Whether it makes the first replicas, which get the version that ran last, as those of a start do."""
    return request.params.get("replicas") != 0 and request.evidence.facts.get("total") == 0


def _ran(facts: Mapping[str, JsonValue]) -> Sequence[str]:
    """What the look that a request rests on said of its versions; see `versions.ran_last`."""
    told = facts.get("instances")
    slots = [str(one.get("version", "")) for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []
    return [one for one in slots if one] or [str(facts.get("version", ""))]
