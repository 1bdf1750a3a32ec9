"""The durable authority: one transaction at a time, compare-and-swap everywhere.

`store.transact(fn)` is the only way to write.  `fn(tx)` is SQL and pure domain code: it may be run again, does no
I/O, and may not call `transact` (that raises).  What it registers with `tx.after_commit` runs only after the commit.
Every time that a rule reads is `tx.now()`.  A read that fails raises StoreUnavailable; it is never an empty answer.
Nothing is cut: a value over its column's limit is refused (Refused) and the transaction with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from fleetwarden.domain.actions import (
    ActionApproval,
    ActionDecision,
    ActionExecution,
    ActionRequest,
    ExecutionState,
    LeaseFence,
    Needed,
    OutboxRecord,
    Outcome,
    Record,
    Verdict,
    Vote,
)
from fleetwarden.domain.budgets import Use
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState, WorkState
from fleetwarden.domain.repeated_failures import Streak
from fleetwarden.ports.allocations import Allocations
from fleetwarden.ports.autoscale_rows import AutoscaleRows
from fleetwarden.ports.cooldowns import Cooldowns
from fleetwarden.ports.desired import Baselines, ForeignChanges, ServiceOverrides
from fleetwarden.ports.epochs import Epochs
from fleetwarden.ports.events import Events
from fleetwarden.ports.evidence import Captures
from fleetwarden.ports.intents import Intents
from fleetwarden.ports.ledger import Ledger, Texts
from fleetwarden.ports.missing_replicas import MissingReplicas
from fleetwarden.ports.notices import BlockedServices, Deliveries
from fleetwarden.ports.pages import Page as Page  # noqa: PLC0414 -- told on under the name that all know
from fleetwarden.ports.planes import Hosts, Placements
from fleetwarden.ports.pushed import PushedSamples
from fleetwarden.ports.shadows import Shadows
from fleetwarden.ports.versions import VersionHistory
from fleetwarden.ports.watches import Quarantines, Watches

T = TypeVar("T")


class DecisionDraft(Record):
    """A decision before the store numbers and dates it."""

    request: ActionRequest
    verdict: Verdict
    code: str
    reason: str
    rule: str
    rule_source: str
    policy_digest: str
    numbers: Mapping[str, JsonValue] = {}
    waives: tuple[str, ...] = ()
    approval_seq: int | None = None


class Decisions(Protocol):
    """The ledger of decisions.  Rows are never changed but for the links to what they led to."""

    def append(self, draft: DecisionDraft) -> ActionDecision:
        """Number, date (`tx.now()`) and store a decision."""

    def append_many(self, drafts: Sequence[DecisionDraft]) -> Sequence[ActionDecision]:
        """As `append`, for each in order, at a fraction of the cost: all of them are written, or the call fails."""

    def link(self, seq: int, *, approval_seq: int | None = None, action_seq: int | None = None) -> None:
        """Set a link that is not set yet."""

    def get(self, seq: int) -> ActionDecision:
        """Raises NotFound."""

    def by_key(self, key: str) -> ActionDecision | None:
        """The first decision on the request with this idempotency key."""

    def latest(self, kind: str, target: str, source: str | None = None) -> ActionDecision | None:
        """The newest decision on kind+target (of that source)."""

    def latest_by_target(self, targets: Sequence[str]) -> Mapping[str, ActionDecision]:
        """The newest decision of each of these targets that has one."""

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        """Budget uses of kind+target after `since` (exclusive), newest first, at most `limit`.

        An allowed decision without an approval counts at its time, unless its record was abandoned; a grant counts at
        its record's commit 1.  Queue and deny verdicts never count.  Dry runs have budgets of their own.
        """

    def uses_of_each(
        self, kind: str, targets: Sequence[str], since: Micros, *, dry_run: bool, limit: int
    ) -> Mapping[str, Sequence[Use]]:
        """`uses` of many targets in one query; one without any is left out."""

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        """The newest use of each distinct target of that kind after `since` (exclusive)."""

    def list(self, page: Page) -> Sequence[ActionDecision]: ...


class ExecutionDraft(Record):
    action_seq: int
    decision_seq: int
    at: Micros
    kind: str
    target: str
    source: str
    state: ExecutionState
    ok: bool
    dry_run: bool
    code: str = ""
    detail: str = ""
    started_at: Micros | None = None
    finished_at: Micros | None = None
    evidence: Mapping[str, JsonValue] = {}


class Executions(Protocol):
    """The ledger of executions, derived from outbox records."""

    def append(self, draft: ExecutionDraft) -> ActionExecution:
        """One row per (action, state): the same pair again returns the row that is there."""

    def rebuild(self, since: Micros) -> int:
        """Write the missing rows of records that ended after `since` from the outbox; returns how many."""

    def of_action(self, action_seq: int) -> Sequence[ActionExecution]:
        """Oldest first; empty if there is none."""

    def latest_of_target(self, target: str) -> ActionExecution | None:
        """The newest by `at` (not by row order) that is not recovery_pending."""

    def latest_by_target(self, targets: Sequence[str]) -> Mapping[str, ActionExecution]: ...

    def failing(self, targets: Sequence[str], since: Micros) -> Sequence[Streak]:
        """Requests on these targets that failed after `since` (exclusive) and did not succeed since then.

        A success of another kind on the target ends a row too.  Dry runs and unknown outcomes count for nothing.
        """

    def list(self, page: Page) -> Sequence[ActionExecution]: ...


class OutboxDraft(Record):
    request: ActionRequest
    decision_seq: int
    approval_seq: int | None = None
    policy_digest: str
    host: str = ""
    expires_at: Micros


class Outbox(Protocol):
    """One row per side effect.  At most one open row per target, one row per key."""

    def prepare(self, draft: OutboxDraft) -> OutboxRecord:
        """Write a `prepared` row.

        Same key and same digest: returns the row that is there, whatever its state.  Same key, other digest: raises
        OutboxConflict.  Another open row of the target: raises TargetBusy.
        """

    def get(self, seq: int) -> OutboxRecord:
        """Raises NotFound.  In a write transaction on PostgreSQL the row is locked."""

    def by_key(self, key: str) -> OutboxRecord | None: ...

    def by_approval(self, approval_seq: int) -> OutboxRecord | None:
        """The newest row of that approval that is not abandoned."""

    def open_of(self, target: str) -> OutboxRecord | None: ...

    def in_state(self, *states: OutboxState) -> Sequence[OutboxRecord]:
        """All rows in these open states, oldest first."""

    def last_called(self, target: str) -> OutboxRecord | None:
        """The target's row with the newest commit 1."""

    def start(
        self,
        seq: int,
        *,
        fence: LeaseFence,
        horizon_at: Micros,
        final_if_acknowledged: bool,
        negatives_by_person: bool,
        request: ActionRequest,
    ) -> OutboxRecord:
        """Commit 1's compare-and-swap `prepared → running` at `tx.now()`; raises IllegalMove if it is not prepared."""

    def finish(
        self,
        seq: int,
        *,
        came_from: OutboxState,
        to: OutboxState,
        outcome: Outcome,
        settled_by: str = "",
        note: str = "",
    ) -> OutboxRecord:
        """Compare-and-swap to a terminal state or to recovery_pending at `tx.now()`; raises IllegalMove."""

    def abandon(self, seq: int, note: str) -> OutboxRecord:
        """`prepared → abandoned`; its budget slot is free again.  Raises IllegalMove."""

    def list(self, page: Page) -> Sequence[OutboxRecord]: ...


class ApprovalDraft(Record):
    request: ActionRequest
    digest: str
    decision_seq: int
    reason: str
    waives: tuple[str, ...]
    expires_at: Micros
    needed: Needed = Needed()


class Approvals(Protocol):
    """Requests to people.  At most one pending row per kind+target."""

    def file(self, draft: ApprovalDraft) -> ActionApproval:
        """Write a pending row.  Raises Conflict if one is pending for the kind+target."""

    def get(self, seq: int) -> ActionApproval:
        """Raises NotFound.  In a write transaction on PostgreSQL the row is locked."""

    def open_of(self, target: str, kind: str | None = None) -> Sequence[ActionApproval]:
        """Pending and granted ones, oldest first."""

    def rejected(self, targets: Sequence[str], since: Micros) -> Sequence[ActionApproval]:
        """What a person rejected at or after `since`, of these targets, oldest first."""

    def in_state(self, *states: ApprovalState) -> Sequence[ActionApproval]:
        """All rows in these open states, oldest first."""

    def vote(self, seq: int, vote: Vote) -> ActionApproval:
        """Record a vote.  A second one by the same person raises Conflict; a row that is not pending too.

        A yes by somebody who is in none of the teams that are needed raises Refused; `move` to granted counts people.
        """

    def replaced(self, seq: int, by: int) -> ActionApproval:
        """Say which request took a superseded one's place, once.  Raises IllegalMove if it is not superseded."""

    def warned(self, seq: int) -> ActionApproval:
        """Note at `tx.now()` that people were told of a pending one's coming end.  Raises IllegalMove if it ended."""

    def move(
        self,
        seq: int,
        *,
        came_from: ApprovalState,
        to: ApprovalState,
        note: str = "",
        superseded_by: int | None = None,
    ) -> ActionApproval:
        """Compare-and-swap at `tx.now()`; raises IllegalMove."""

    def list(self, page: Page) -> Sequence[ActionApproval]: ...

    def count(self, status: ApprovalState) -> int: ...


class WorkDraft(Record):
    """A step to be done.  `key` dedups: while a row with it is ready or leased, enqueueing again changes nothing."""

    kind: str
    key: str
    payload: Mapping[str, JsonValue]
    not_before: Micros = 0
    max_attempts: int = 8
    deadline: Micros | None = None
    target: str = ""
    host: str = ""


class WorkItem(Record):
    seq: int
    kind: str
    key: str
    payload: Mapping[str, JsonValue]
    state: WorkState
    attempts: int
    max_attempts: int
    not_before: Micros
    deadline: Micros | None
    target: str
    host: str
    token: int  # fencing token; grows with every claim
    holder: str
    lease_until: Micros | None
    created_at: Micros
    updated_at: Micros
    error: str = ""
    result: Mapping[str, JsonValue] = {}


class WorkItems(Protocol):
    """Durable steps.  Every change after a claim names the claim's token and raises Fenced if a newer one exists."""

    def enqueue(self, draft: WorkDraft) -> WorkItem:
        """Returns the open row with that key if there is one (its not_before is moved up, never back)."""

    def claim(self, holder: str, kinds: Sequence[str], lease_us: Micros, limit: int) -> Sequence[WorkItem]:
        """Lease due rows: ready with not_before ≤ now, or leased with a lapsed lease (attempts + 1, token + 1)."""

    def extend(self, seq: int, token: int, lease_us: Micros) -> WorkItem: ...

    def complete(self, seq: int, token: int, result: Mapping[str, JsonValue]) -> WorkItem: ...

    def again(self, seq: int, token: int, *, not_before: Micros, error: str = "", count: bool = True) -> WorkItem:
        """Back to ready.  `count` false: a planned next step, not a failure (attempts is not kept)."""

    def again_each(self, held: Mapping[int, int], *, not_before: Micros, note: str = "") -> Collection[int]:
        """The planned next step of many, by number and token, as `again` with `count` false; returns which moved.

        One whose token is not the newest any more is left alone: another holder has it.
        """

    def bury(self, seq: int, token: int, error: str) -> WorkItem:
        """Dead letter."""

    def get(self, seq: int) -> WorkItem: ...

    def list(self, page: Page) -> Sequence[WorkItem]: ...

    def mark(self) -> tuple[int, Micros]:
        """How far the queue has changed: the newest item, and when any item last changed (enqueued, claimed, ended)."""

    def next_due(self, kinds: Sequence[str] = ()) -> Micros | None:
        """The earliest moment at which something (of these kinds; none: of any) can be claimed."""

    def depth(self) -> tuple[int, int]:
        """How many items are due and wait to be claimed, and how many are due or claimed and not finished."""

    def void_all(self) -> int:
        """End the lease of every item, as `Leases.void_all` does: each is ready again when it was due.

        Attempts and tokens stay as they are.
        """


class Lease(Record):
    fence: LeaseFence
    expires_at: Micros
    acquired_at: Micros


class Leases(Protocol):
    """Leases keyed (cadence, shard), with tokens that only grow."""

    def acquire(self, cadence: str, shard: str, holder: str, ttl_us: Micros) -> LeaseFence | None:
        """Take a free or lapsed lease with token + 1, or extend (never shorten) one's own; None if another holds it."""

    def release(self, fence: LeaseFence) -> None:
        """Give it up; a lease that is no longer ours is left alone."""

    def check(self, fence: LeaseFence) -> Micros:
        """Lock the row (`FOR SHARE` on PostgreSQL) and return when it expires; raises Fenced if it is lost."""

    def void_all(self) -> int:
        """End every lease (SQLite at start: the file lock proves that no other holder lives).  Tokens keep growing."""

    def list(self) -> Sequence[Lease]: ...


class Freeze(Record):
    """`scope` is all, group, kind or service, and `value` names which one ("" for all)."""

    seq: int
    scope: str = "all"
    value: str = ""
    owner: str
    reason: str
    at: Micros
    until: Micros | None = None
    lifted_at: Micros | None = None
    lifted_by: str = ""
    told_at: Micros | None = None  # when it was written down that it ended by itself


class Freezes(Protocol):
    def add(
        self, *, owner: str, reason: str, until: Micros | None = None, scope: str = "all", value: str = ""
    ) -> Freeze: ...

    def lift(self, seq: int, by: str) -> Freeze:
        """Raises Conflict if it was lifted already."""

    def active(self) -> Sequence[Freeze]:
        """Those neither lifted nor past their end, oldest first."""

    def ended(self) -> Sequence[Freeze]:
        """Those past their end that nobody has written down yet, oldest first."""

    def told(self, seq: int) -> Freeze:
        """Note at `tx.now()` that its end was written down.  Raises Conflict if it has not ended, or was told."""

    def list(self, page: Page) -> Sequence[Freeze]: ...


class StoredOverride(Record):
    """A `governance_rule` record: a policy rule written at run time.  `rule` as in the policy file's rules."""

    id: str
    rule: Mapping[str, JsonValue]
    active: bool
    written_by: str
    at: Micros


class PolicyOverrides(Protocol):
    def put(self, override_id: str, rule: Mapping[str, JsonValue], *, active: bool, by: str) -> StoredOverride: ...

    def delete(self, override_id: str) -> None:
        """Raises NotFound."""

    def all(self) -> Sequence[StoredOverride]:
        """Ordered by id, inactive ones included."""


class StoredToken(Record):
    """A credential: only the digest of its secret is kept."""

    seq: int
    name: str
    secret_digest: str
    roles: tuple[str, ...]
    person: str
    created_at: Micros
    expires_at: Micros | None = None
    revoked_at: Micros | None = None
    teams: tuple[str, ...] = ()


class Tokens(Protocol):
    def add(
        self,
        *,
        name: str,
        secret_digest: str,
        roles: tuple[str, ...],
        person: str,
        expires_at: Micros | None = None,
        teams: tuple[str, ...] = (),
    ) -> StoredToken:
        """Raises Conflict if a live token has that name."""

    def by_digest(self, secret_digest: str) -> StoredToken | None:
        """Only a live one: neither revoked nor expired."""

    def revoke(self, name: str) -> StoredToken:
        """Raises NotFound."""

    def retire(self, name: str, *, as_name: str, until: Micros) -> StoredToken:
        """Give a live token another name and an end, which is never later than its own.  Raises NotFound."""

    def all(self) -> Sequence[StoredToken]: ...


class JournalEntry(Record):
    """A line of the journal: a notice, or who changed what."""

    seq: int
    at: Micros
    topic: str  # notice | freeze | token | override | approval | recovery | configuration | shutdown | plane
    actor: str
    subject: str
    severity: str
    summary: str
    detail: Mapping[str, JsonValue] = {}
    xact: int = 0  # the transaction that wrote it, where the database has several at a time

    @property
    def mark(self) -> FeedMark:
        """Where a reader that has this entry goes on."""
        return FeedMark(xact=self.xact, seq=self.seq)


class FeedMark(Record):
    """How far a reader of the journal has come, in the order in which entries became visible for good."""

    xact: int = 0
    seq: int = 0


class Journal(Protocol):
    """Append-only: every mutation by a person is attributed here, and every notice is written here."""

    def write(
        self,
        *,
        topic: str,
        actor: str,
        subject: str = "",
        severity: str = "info",
        summary: str,
        detail: Mapping[str, JsonValue] = {},
    ) -> JournalEntry: ...

    def list(self, page: Page) -> Sequence[JournalEntry]:
        """`kind` filters by topic, `target` by subject."""

    def after(self, mark: FeedMark, *, topic: str, limit: int) -> Sequence[JournalEntry]:
        """Entries of that topic behind the mark, in the order of marks.

        Only what lies below every transaction that still runs: no entry can turn up later between those handed out, so
        that whoever goes on from the last one's mark skips none.
        """


class StoredReport(Record):
    seq: int
    at: Micros
    kind: str
    body: Mapping[str, JsonValue]


class Reports(Protocol):
    """One compact report per pass that did or refused something."""

    def append(self, kind: str, body: Mapping[str, JsonValue]) -> StoredReport: ...

    def get(self, seq: int) -> StoredReport: ...

    def list(self, page: Page) -> Sequence[StoredReport]: ...


class Facts(Protocol):
    """Small named values that must survive: fleet id, hosts of services."""

    def get(self, name: str) -> JsonValue | None: ...

    def put(self, name: str, value: JsonValue) -> None: ...


class Tx(Protocol):
    """One transaction.  A read transaction has the same face; its writes raise."""

    decisions: Decisions
    executions: Executions
    outbox: Outbox
    approvals: Approvals
    work: WorkItems
    leases: Leases
    freezes: Freezes
    overrides: PolicyOverrides
    tokens: Tokens
    journal: Journal
    reports: Reports
    facts: Facts
    epochs: Epochs
    ledger: Ledger
    texts: Texts
    placements: Placements
    hosts: Hosts
    service_overrides: ServiceOverrides
    foreign: ForeignChanges
    baselines: Baselines
    captures: Captures
    versions: VersionHistory
    intents: Intents
    cooldowns: Cooldowns
    allocations: Allocations
    autoscale_rows: AutoscaleRows
    pushed: PushedSamples
    shadows: Shadows
    missing_replicas: MissingReplicas
    events: Events
    deliveries: Deliveries
    blocked: BlockedServices
    watches: Watches
    quarantines: Quarantines

    def now(self) -> Micros:
        """The store's time, one value for the whole transaction: the database's clock on PostgreSQL (taken after the
        admission lock, if that was taken), on SQLite the clock, but always later than any time told before."""

    def lock_admission(self, *, exclusive: bool) -> None:
        """The fleet's one admission lock, until the end of the transaction (a no-op on SQLite).  Take it first."""

    def after_commit(self, release: Callable[[], None]) -> None:
        """Run after a successful commit, never otherwise: wake-ups, publications."""


class StoreHealth(Record):
    """What the store says about itself."""

    dialect: str  # sqlite | postgresql
    reachable: bool
    detail: str = ""
    wal_bytes: int | None = None
    slow_transactions: int = 0


class Store(Protocol):
    """See the module's docstring.  `name` names the transaction in metrics, logs and fault injection."""

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one write transaction and return its value once it is durably committed.

        If `fn` raises, nothing of it is kept and the exception passes on.  Raises StoreUnavailable (nothing was
        committed), OutcomeUnknown (PostgreSQL: the connection was lost during COMMIT; read back, never re-run).
        """

    def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a short read transaction.  Raises StoreUnavailable."""

    def health(self) -> StoreHealth: ...

    def close(self) -> None: ...
