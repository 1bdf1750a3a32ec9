"""Watches and quarantines in the store.

A watch changes only while it runs; its end, what followed and what took its place are written once.  One runs for each
service.  Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, Quarantine, WatchStatus
from fleetwarden.domain.identifiers import Micros
from fleetwarden.ports.pages import Page

__all__ = ["Quarantines", "Tally", "WatchDraft", "Watches"]


class WatchDraft(Record):
    """A watch before the store numbers and dates it."""

    service: str
    action_seq: int | None
    kind: str
    source: str
    version: str = ""
    from_version: str = ""
    from_replicas: int | None = None
    definition: str = ""
    replica: str = ""
    changes_version: bool = False
    on_fail: OnFail = OnFail.ESCALATE
    grace_until: Micros
    deadline: Micros
    poll: Micros = 0


class Tally(Record):
    """Looks that said what the look before said: only their numbers move on."""

    seqs: tuple[int, ...]
    usable: bool
    healthy: bool


class Watches(Protocol):
    def begin(self, draft: WatchDraft) -> DeployWatch:
        """Add a running watch, `started` and `settled` at `tx.now()`.  Raises Conflict while one runs."""

    def get(self, seq: int) -> DeployWatch:
        """Raises NotFound."""

    def of_action(self, action_seq: int) -> DeployWatch | None: ...

    def these(self, seqs: Sequence[int]) -> Mapping[int, DeployWatch]:
        """Those of these that there are, by number, in one query."""

    def running(self, service: str) -> DeployWatch | None: ...

    def tally(self, tally: Tally) -> None:
        """Count one more look of each of these running watches, at `tx.now()`."""

    def change(self, watch: DeployWatch) -> None:
        """Write a running watch as it is now: terms, looks, or its end, then dated `tx.now()`.

        Raises Conflict if it does not run any more.
        """

    def replaced(self, seq: int, by: int) -> None:
        """Say which watch took a replaced one's place.  Raises Conflict if it was not replaced, or that is said."""

    def followed(self, seq: int, what: str) -> None:
        """Say what became of a failure whose follow-up was pending.  Raises Conflict if it is not."""

    def follow_again(self, seq: int) -> None:
        """What a failure led to came to nothing: it is pending again.  Raises Conflict if the watch has not failed."""

    def of_versions(self, service: str, limit: int) -> Sequence[DeployWatch]:
        """Watches that say something of a version: successes that prove it and failures of its change, newest first."""

    def newest_change(self, service: str) -> DeployWatch | None:
        """The newest watch of a change of version, whatever became of it."""

    def list(self, page: Page) -> Sequence[DeployWatch]:
        """`state` filters by status, `target` by service."""

    def count(self, status: WatchStatus) -> int: ...


class Quarantines(Protocol):
    def add(self, service: str, version: str, *, watch_seq: int, reason: str) -> Quarantine:
        """The standing quarantine of that version if there is one, else a new one."""

    def standing(self) -> Sequence[Quarantine]:
        """Those that nobody has cleared, oldest first."""

    def of_service(self, service: str, limit: int) -> Sequence[Quarantine]:
        """Newest first, cleared ones included."""

    def cleared_last(self) -> Sequence[Quarantine]:
        """Of each version of each service, the one that was cleared last."""

    def clear(self, seq: int, *, by: str, note: str) -> Quarantine:
        """Raises Conflict if it was cleared already, NotFound."""

    def list(self, page: Page) -> Sequence[Quarantine]: ...
