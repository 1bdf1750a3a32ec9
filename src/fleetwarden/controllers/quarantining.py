"""Versions that failed their watch: set aside for their service, kept from every controller, until a person says so.

A quarantine is written with the verdict and read in the transaction that decides, so that nothing slips between.  It
never stops a repair: what runs is restarted in the version that it had.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.actions import ActionRequest, Kind
from fleetwarden.domain.deploy_watch import DeployWatch, Quarantine
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.versions import ROLLOUTS
from fleetwarden.ports.stores import Tx

__all__ = ["Marks", "marks_of", "quarantine", "refused"]


class Marks:
    """One transaction's view: what stands, and when each version was last cleared."""

    def __init__(self, standing: Mapping[tuple[str, str], Quarantine], cleared: Mapping[tuple[str, str], Micros]):
        self._standing = standing
        self._cleared = cleared
        self.services = frozenset(name for name, _ in standing)

    def why(self, service: str, version: str) -> str:
        """Why that version is not deployed, or ""."""
        one = self._standing.get((service, version))
        return "" if one is None else one.words

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
    if request.kind in ROLLOUTS:
        version = str(request.params.get("version", ""))
    elif request.kind == Kind.START and declared is not None:
        version = declared.version
    else:
        return ""
    if not version:
        return ""
    found = [one for one in tx.quarantines.standing() if (one.service, one.version) == (request.target, version)]
    return found[0].words if found else ""
