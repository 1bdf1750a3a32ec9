"""The whole error tree, ordered by what the caller should do.

Every error that crosses a layer is one of five: Refused (do not repeat it unchanged), Conflict (read again, then
decide again), Retryable (the same call may succeed later), OutcomeUnknown (it may have happened: look, never repeat),
Misconfigured (a person must change a file or a setting).  An adapter's own exceptions are wrapped and chained, so
that no caller ever has to know a driver's classes.  Messages are for people: what, why, and what would satisfy it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = [
    "Conflict",
    "Fenced",
    "FleetError",
    "IllegalMove",
    "Misconfigured",
    "NotCalled",
    "NotFound",
    "OutboxConflict",
    "OutcomeUnknown",
    "Problem",
    "Refused",
    "Retryable",
    "StaleRevision",
    "StoreUnavailable",
    "TargetBusy",
]


class FleetError(Exception):
    """Root of the tree.

    `code` is a stable machine word; `hint` says what would satisfy the refusal, and may be empty.
    """

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Refused(FleetError):
    """Policy, a fence or a precondition says no.  Repeating the same request unchanged is pointless."""

    code = "refused"


class Fenced(Refused):
    """The writer's lease is no longer the newest one.  It must stop writing and start over with a new lease."""

    code = "fenced"


class NotCalled(Refused):
    """The side effect was certainly not begun (start window passed, freeze seen).  Settles as failed, safely."""

    code = "not_called"


class NotFound(Refused):
    """What was named does not exist."""

    code = "not_found"


class Conflict(FleetError):
    """Somebody else moved first: read again and decide again."""

    code = "conflict"


class IllegalMove(Conflict):
    """A lifecycle move that its table does not hold, or from a state that the record is no longer in."""

    code = "illegal_move"


class TargetBusy(Conflict):
    """Another record of the same target is open.  Propose again on a later pass."""

    code = "target_busy"


class OutboxConflict(Conflict):
    """The same idempotency key came with another request."""

    code = "outbox_conflict"


class StaleRevision(Conflict):
    """The revision that a put rests on is no longer the latest.  Read again, and decide again on a later pass."""

    code = "stale_revision"


class Retryable(FleetError):
    """A passing fault.  Nothing was done; the same call may be made again, bounded."""

    code = "retryable"


class StoreUnavailable(Retryable):
    """The authority cannot be read or written now.  Never to be mistaken for an empty answer."""

    code = "store_unavailable"


class OutcomeUnknown(FleetError):
    """It may or may not have happened.  Look for evidence; never repeat blindly."""

    code = "outcome_unknown"


class Problem(msgspec.Struct, frozen=True, order=True):
    """One finding in a file: where (file, 1-based line; 0 = the file as a whole), and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.reason}" if self.line else f"{self.file}  {self.reason}"


class Misconfigured(FleetError):
    """A file, a setting or an argument is wrong.  Changes nothing; names every problem found."""

    code = "misconfigured"

    def __init__(self, message: str, problems: Iterable[Problem] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])
