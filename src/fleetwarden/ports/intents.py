"""What the store keeps of scale intents: one sequence of revisions per service, moved by compare-and-swap only.

The rows are the authority over who may change a native service's count.  Nothing is ever read first and written later
outside one transaction, and a revision that somebody else took is a conflict, never overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.contract.lifecycle import ScaleIntent
from fleetwarden.domain.identifiers import JsonValue, Micros, show_id
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.question_evidence import Want
from fleetwarden.ports.pages import Page

__all__ = ["UNREAD", "Convergence", "IntentRow", "Intents", "NextRevision", "Unread"]


class Convergence(Record):
    """What observers said after the execution.  `against_at`: the newest look that contradicted, if any since;
    `want`: what ticks said of it before, while it was a question; None where none has said anything new."""

    observed_at: Micros | None = None  # the first look that showed ready = desired
    verified_at: Micros | None = None  # the second, strictly later one
    against_at: Micros | None = None
    deadline: Micros | None = None  # until when it may converge
    evidence: Mapping[str, JsonValue] = {}  # counts of the newest look that counted
    want: Want | None = None
    overtaken_by: int | None = None  # the newer revision's, carried out before this one was seen to hold

    def with_want(self, want: Want) -> Convergence:
        """The same with what a tick said of it."""
        return msgspec.structs.replace(self, want=want)


class IntentRow(Record):
    """One revision with where it stands.  `approval_seq`: who was asked; `action_seq`: its newest outbox record."""

    seq: int
    intent: ScaleIntent
    state: IntentState
    decision_seq: int | None  # None only for an override
    approval_seq: int | None = None
    action_seq: int | None = None
    accepted_at: Micros | None = None
    moved_at: Micros
    note: str = ""  # why it ended, when it did
    convergence: Convergence = Convergence()

    @property
    def id(self) -> str:
        return show_id("I", self.seq)


class NextRevision(Record):
    """A revision to be accepted.  `latest`: its service's latest row, read in this transaction under the lock."""

    intent: ScaleIntent
    decision_seq: int
    latest: IntentRow | None


class Unread(Enum):
    """That the latest row was not read yet, as against there being none."""

    UNREAD = "unread"


UNREAD = Unread.UNREAD


class Intents(Protocol):
    """Revisions of all services."""

    def put(
        self,
        intent: ScaleIntent,
        *,
        state: IntentState,
        decision_seq: int | None,
        approval_seq: int | None = None,
        latest: IntentRow | Unread | None = UNREAD,
    ) -> IntentRow:
        """Write the next revision, in state proposed, intent_accepted, or (an override's) superseded.

        Only if `expected_revision` is the latest revision of its service (0: there is none): else StaleRevision, unless
        the latest is this very intent (same intent_id and idempotency_key), which is returned as it stands.  While the
        latest one's outbox record is running or recovery_pending: Conflict.  Raises Refused for a revision that is not
        expected_revision + 1.  `latest`: the service's latest row, if this transaction has read it under the admission
        lock; a revision that somebody wrote all the same is met by the compare-and-swap.
        """

    def accept_many(self, revisions: Sequence[NextRevision]) -> Sequence[IntentRow]:
        """As `put` in state intent_accepted, for each of these in order, at a fraction of the cost.

        All of them are written, or the call fails, with what `put` raises; none may be of a service twice, nor have
        been put before.
        """

    def latest(self, service: str) -> IntentRow | None: ...

    def latest_of(self, services: Sequence[str]) -> Mapping[str, IntentRow]:
        """The latest row of each of these that has one, in one query."""

    def get(self, seq: int) -> IntentRow:
        """Raises NotFound.  In a write transaction on PostgreSQL the row is locked."""

    def by_intent_id(self, intent_id: str) -> IntentRow | None: ...

    def by_approval(self, approval_seq: int) -> IntentRow | None: ...

    def by_action(self, action_seq: int) -> IntentRow | None: ...

    def in_state(self, *states: IntentState) -> Sequence[IntentRow]:
        """All rows in these states that are no ends, oldest first."""

    def move(
        self, row: IntentRow, to: IntentState, *, note: str = "", convergence: Convergence | None = None
    ) -> IntentRow:
        """Compare-and-swap on (intent id, revision, state of `row`) at `tx.now()`; raises IllegalMove."""

    def link(self, row: IntentRow, *, approval_seq: int | None = None, action_seq: int | None = None) -> IntentRow:
        """Set what it led to; its state stays.  Raises IllegalMove if the row has moved on."""

    def note_convergence(self, row: IntentRow, convergence: Convergence) -> IntentRow:
        """Keep what observers said without a move.  Raises IllegalMove if the row has moved on."""

    def list(self, page: Page) -> Sequence[IntentRow]:
        """`target` filters by service, `state` by state, `kind` by operation."""
