"""The lifecycle records of the scaling contract: what is wanted for one unit, and by what evidence.

One ScaleIntent type exists, and this is it.  It is written once, with its decision, and never changes: where it stands
is its row's state.  No record carries raw samples or the text of a query.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import LeaseFence, Record
from fleetwarden.domain.identifiers import Micros, digest

__all__ = ["SCHEMA_VERSION", "IntentOperation", "ScaleIntent", "SignalSummaryRef", "intent_id"]

SCHEMA_VERSION = "1"


class IntentOperation(StrEnum):
    """Why a count changes: to follow load, back to where a failed change began, or because a person says so.

    An `override` is a person's: it takes a revision so that nobody's older read can be put over it, and it is never
    executed as an intent (the override itself is desired state).
    """

    SCALE = "scale"
    ROLLBACK = "rollback"
    OVERRIDE = "override"


class SignalSummaryRef(Record):
    """A bounded pointer to what the signals said: a digest and its window, never samples or query text.

    `digest` is of the canonical JSON of the signals' summary (name, value, aggregation, unit, observed_at, source).
    """

    schema_version: str = SCHEMA_VERSION
    digest: str
    window_start: Micros
    window_end: Micros
    signals: int = 1  # how many signals it sums up, 0 for a person's override


class ScaleIntent(Record):
    """One revision of the count that a unit should have.  `revision` is `expected_revision` + 1; 0 = none before."""

    schema_version: str = SCHEMA_VERSION
    service: str
    unit: str
    controller_mode: str
    intent_id: str
    idempotency_key: str
    expected_revision: int
    revision: int
    operation: IntentOperation
    desired_replicas: int
    observed_replicas: int
    signal: SignalSummaryRef
    fence: LeaseFence
    decision_id: str  # "" only for an override, which is decided when it is carried out
    created_at: Micros


def intent_id(service: str, controller_mode: str, expected_revision: int, operation: str, desired_replicas: int) -> str:
    """The intent's identity: equal wishes on the same revision are the same intent, whoever has them.

    Evidence, times and lease holders are left out on purpose, so that a second controller's equal put is a re-put.
    """
    return digest([service, controller_mode, expected_revision, operation, desired_replicas])
