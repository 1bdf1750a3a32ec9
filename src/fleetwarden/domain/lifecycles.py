"""One transition table per lifecycle, and one way to move.

Every state that the product stores is an enum here, and every move that exists is a row of a table.  A step that is
not in its table raises; it is never a branch somewhere else.  The tables are meant to equal those of the protocol
model, plus what the model leaves out because it never calls: prepared, abandoned, simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from fleetwarden.domain.errors import IllegalMove

__all__ = [
    "APPROVAL",
    "INTENT",
    "LIVE_INTENTS",
    "OPEN_APPROVALS",
    "OPEN_RECORDS",
    "OUTBOX",
    "WORK",
    "ApprovalState",
    "IntentState",
    "Lifecycle",
    "OutboxState",
    "WorkState",
]

S = TypeVar("S", bound=StrEnum)


class OutboxState(StrEnum):
    """States of one action's side effect (its outbox record)."""

    PREPARED = "prepared"
    RUNNING = "running"
    RECOVERY_PENDING = "recovery_pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SIMULATED = "simulated"
    ABANDONED = "abandoned"


class ApprovalState(StrEnum):
    """States of one request to a person."""

    PENDING = "pending"
    GRANTED = "granted"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CLOSED = "closed"
    VOIDED = "voided"


class IntentState(StrEnum):
    """States of one revision of a service's scale intent."""

    PROPOSED = "proposed"  # waits for a person, or for a maintenance window to open
    INTENT_ACCEPTED = "intent_accepted"
    RECOVERY_PENDING = "recovery_pending"
    EXECUTED = "executed"
    OBSERVED = "observed"
    VERIFIED = "verified"
    SIMULATED = "simulated"
    FAILED = "failed"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"


class WorkState(StrEnum):
    """States of a durable step of work."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"


class Lifecycle(Generic[S]):
    """A named transition table.  States without a row are ends."""

    def __init__(self, name: str, moves: Mapping[S, frozenset[S]]) -> None:
        self.name = name
        self.moves = dict(moves)

    def advance(self, current: S, to: S) -> S:
        """Return `to` if the table holds the move, else raise IllegalMove."""
        if to not in self.moves.get(current, frozenset()):
            raise IllegalMove(f"{self.name}: no move from {current.value} to {to.value}")
        return to

    def is_end(self, state: S) -> bool:
        """Whether nothing leads on from `state`."""
        return not self.moves.get(state)


_O, _A, _W = OutboxState, ApprovalState, WorkState

OUTBOX: Lifecycle[OutboxState] = Lifecycle(
    "outbox record",
    {
        _O.PREPARED: frozenset({_O.RUNNING, _O.ABANDONED}),
        _O.RUNNING: frozenset({_O.SUCCEEDED, _O.FAILED, _O.SIMULATED, _O.RECOVERY_PENDING}),
        _O.RECOVERY_PENDING: frozenset({_O.SUCCEEDED, _O.FAILED}),
    },
)
APPROVAL: Lifecycle[ApprovalState] = Lifecycle(
    "approval",
    {
        _A.PENDING: frozenset({_A.GRANTED, _A.REJECTED, _A.EXPIRED, _A.SUPERSEDED}),
        _A.GRANTED: frozenset({_A.CLOSED, _A.VOIDED, _A.REJECTED, _A.EXPIRED, _A.SUPERSEDED}),
    },
)
WORK: Lifecycle[WorkState] = Lifecycle(
    "work item",
    {
        _W.READY: frozenset({_W.LEASED}),
        _W.LEASED: frozenset({_W.READY, _W.LEASED, _W.DONE, _W.DEAD}),  # leased → leased: taken over after expiry
    },
)
_I = IntentState
INTENT: Lifecycle[IntentState] = Lifecycle(
    "scale intent",
    {
        _I.PROPOSED: frozenset({_I.INTENT_ACCEPTED, _I.REJECTED, _I.SUPERSEDED}),
        _I.INTENT_ACCEPTED: frozenset(
            {_I.SIMULATED, _I.EXECUTED, _I.FAILED, _I.RECOVERY_PENDING, _I.REJECTED, _I.SUPERSEDED}
        ),
        _I.RECOVERY_PENDING: frozenset({_I.EXECUTED, _I.FAILED}),
        _I.EXECUTED: frozenset({_I.OBSERVED, _I.FAILED}),
        _I.OBSERVED: frozenset({_I.VERIFIED, _I.FAILED}),
    },
)
LIVE_INTENTS = (_I.PROPOSED, _I.INTENT_ACCEPTED, _I.RECOVERY_PENDING)  # the action that they stand for is not over yet
OPEN_RECORDS = (_O.PREPARED, _O.RUNNING, _O.RECOVERY_PENDING)
OPEN_APPROVALS = (_A.PENDING, _A.GRANTED)
