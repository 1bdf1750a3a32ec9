"""The end of a watch and everything that belongs to it, in one transaction.

Verdict, proof or quarantine, the row of failures and the notice are written together.  What a failure proposes is a
step of its own that follows, so that it is done once whatever dies in between.  Nothing is proposed here.
"""

from __future__ import annotations

import msgspec

from fleetwarden.controllers.escalation import escalate
from fleetwarden.controllers.quarantining import quarantine
from fleetwarden.controllers.storm_watch import severity_in
from fleetwarden.controllers.worker import Step
from fleetwarden.domain.actions import Kind, Outcome
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, WatchStatus
from fleetwarden.domain.deploy_watch_verdict import Verdict, proves
from fleetwarden.domain.identifiers import show_id
from fleetwarden.ports.stores import Tx

__all__ = ["PENDING", "Followed", "end_watch", "tell", "watched_words"]

PENDING = "pending"


class Followed(Step, frozen=True, kw_only=True):
    """What a failed watch led to.  `told`: what people hear of it, written with the step's own end and so only once.
    `action`: the record that it was left to; 0: none."""

    severity: str = ""
    told: str = ""
    action: int = 0


def end_watch(tx: Tx, watch: DeployWatch, verdict: Verdict) -> DeployWatch:
    """End a running watch.  `watch` is as it is now, looks included.  Raises Conflict if it has ended."""
    failed = verdict.status is WatchStatus.FAILED
    follows = failed and watch.on_fail is not OnFail.ESCALATE
    ended = msgspec.structs.replace(
        watch,
        status=verdict.status,
        reason=verdict.reason,
        proven=verdict.status is WatchStatus.SUCCESS and proves(watch),
        follow_up=PENDING if follows else "people were told" if failed else "",
        ended_at=tx.now(),
    )
    tx.watches.change(ended)
    if failed:
        held = quarantine(tx, ended, verdict.reason)
        aside = "" if held is None else f"; version {held.version} is in quarantine ({held.id})"
        tell(tx, ended, "error" if follows else "critical", f"{watched_words(ended)} failed: {verdict.reason}{aside}")
        if ended.kind == Kind.RESTART and ended.action_seq is not None:
            escalate(tx, tx.outbox.get(ended.action_seq), Outcome(ok=False, detail="down again within its watch"))
    elif verdict.status is WatchStatus.UNOBSERVED:
        tell(tx, ended, "warning", f"{watched_words(ended)} saw nothing: {verdict.reason}")
    return ended


def watched_words(watch: DeployWatch) -> str:
    """The watch as the beginning of a sentence."""
    action = f" after {show_id('X', watch.action_seq)} ({watch.kind})" if watch.action_seq is not None else ""
    version = f" of version {watch.version}" if watch.changes_version and watch.version else ""
    return f"watch {watch.id} of {watch.service}{version}{action}"


def tell(tx: Tx, watch: DeployWatch, severity: str, summary: str) -> None:
    """A notice with the watch as its evidence; in a storm it is no page of its own."""
    action = {} if watch.action_seq is None else {"action": show_id("X", watch.action_seq)}
    group = "" if watch.action_seq is None else tx.outbox.get(watch.action_seq).request.group
    tx.journal.write(
        topic="notice",
        actor="deploy_watch",
        subject=watch.service,
        severity=severity_in(tx, severity, group),
        summary=summary,
        detail={
            "watch": watch.id,
            **action,
            "status": watch.status.value,
            "looks": watch.made,
            "usable": watch.usable,
            "healthy": watch.healthy,
        },
    )
