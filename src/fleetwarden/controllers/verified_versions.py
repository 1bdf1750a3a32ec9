"""What the store knows of a service's versions that a way back rests on: verdicts, quarantines and roll-outs.

Read in one transaction, so that whoever goes back, a watch or a person, rests on the same.  It never writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fleetwarden.domain.deploy_watch import DeployWatch
from fleetwarden.ports.stores import Tx

__all__ = ["KnownVersions", "known_versions"]

VERDICTS_MAX = 200
HISTORY_MAX = 200


class KnownVersions(TypedDict):
    """Arguments of `rollback_target` and `verified_before`."""

    verdicts: Sequence[DeployWatch]
    quarantined: frozenset[str]
    complete: Mapping[str, bool]


def known_versions(tx: Tx, service: str) -> KnownVersions:
    """The newest 200 verdicts and 200 roll-outs of this service, and what stands in quarantine."""
    complete: dict[str, bool] = {}
    for ran in tx.versions.of_service(service, HISTORY_MAX):
        complete.setdefault(ran.version, ran.complete)
    return {
        "verdicts": tx.watches.of_versions(service, VERDICTS_MAX),
        "quarantined": frozenset(one.version for one in tx.quarantines.standing() if one.service == service),
        "complete": complete,
    }
