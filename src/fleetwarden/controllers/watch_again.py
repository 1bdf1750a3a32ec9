"""A rollback that nothing came of is asked for anew: a plane that died in it must not leave the failed version running.

Whoever ends such a record, by evidence or at the last check, puts the follow-up of its watch back in the same
transaction.  Each attempt has a key of its own, derived from the watch's, and there are few: then people are told.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetwarden.controllers.watch_opening import step_of
from fleetwarden.domain.actions import Kind, OutboxRecord, Source
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, WatchStatus
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Tx

__all__ = ["ATTEMPTS_MAX", "came_to_nothing", "follow_again", "key_of_attempt"]

ATTEMPTS_MAX = 3  # of one watch's rollback that came to nothing
WATCHES_READ = 200


def came_to_nothing(record: OutboxRecord) -> bool:
    """Whether it was never begun, or evidence or a person said afterwards that it had not been done as a whole."""
    if record.state is OutboxState.ABANDONED:
        return record.approval_seq is None  # a grant is carried out all the same, until it ends
    return record.state is OutboxState.FAILED and record.settled_by != ""


def key_of_attempt(tx: Tx, watch: DeployWatch) -> str | None:
    """The idempotency key of what a watch proposes now: the same however often its step is done; None after the last.

    The next one is due once nothing came of the one before.
    """
    return next((key for key in _keys(watch) if not _lost(tx, key)), None)


def follow_again(tx: Tx, record: OutboxRecord) -> None:
    """Put the follow-up back whose rollback this was, if nothing came of it.  Part of what ended the record."""
    request = record.request
    if request.kind != Kind.ROLLBACK or request.source != Source.DEPLOY_WATCH or not came_to_nothing(record):
        return
    first = request.key.partition(".")[0]  # a grant's request has the key of the one that was asked about in front
    for watch in tx.watches.of_versions(request.target, WATCHES_READ):
        failed = watch.status is WatchStatus.FAILED and watch.on_fail is OnFail.ROLLBACK
        if failed and first in _keys(watch):
            tx.watches.follow_again(watch.seq)
            tx.work.enqueue(step_of(watch, tx.now()))
            return


def _keys(watch: DeployWatch) -> Iterator[str]:
    for attempt in range(ATTEMPTS_MAX):
        named = ["deploy_watch", watch.service, watch.seq, watch.started]
        yield digest(named if attempt == 0 else [*named, attempt]).removeprefix("sha256:")


def _lost(tx: Tx, key: str) -> bool:
    decision = tx.decisions.by_key(key)
    if decision is None:
        return False
    asked = decision.approval_seq
    record = tx.outbox.by_key(key) if asked is None else tx.outbox.by_approval(asked)
    return record is not None and came_to_nothing(record)
