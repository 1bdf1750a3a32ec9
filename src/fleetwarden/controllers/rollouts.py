"""Which versions ran, written down with the end of the action that chose them; and what was rolled back.

A version that a person rolled back from is not deployed again by the reconciler only because the files still name it:
that stands until the files name another, or a person deploys it.  Nothing here proposes or decides anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.actions import Kind, OutboxRecord, Outcome
from fleetwarden.domain.identifiers import JsonValue, show_id
from fleetwarden.domain.lifecycles import OutboxState, WorkState
from fleetwarden.domain.versions import ROLLOUTS
from fleetwarden.ports.stores import Page, Tx, WorkItem
from fleetwarden.ports.versions import RanVersion

__all__ = ["note_version", "rolled_back", "rollouts_under_way", "why_not_again"]

SEPARATOR = ", "
WATCH = "deploy_watch"
PAGE = 500


def note_version(tx: Tx, record: OutboxRecord, to: OutboxState, outcome: Outcome) -> None:
    """Write down which version an action chose, if it chose one and anything came of it.  Part of commit 2."""
    request = record.request
    done = to is OutboxState.SUCCEEDED
    if request.dry_run or outcome.dry_run or not (done or (to is OutboxState.FAILED and outcome.code == "partial")):
        return
    version = _chosen(request.kind, request.params, outcome)
    if not version:
        return
    told = [str(one.get("version", "")) for one in request.evidence.facts.get("instances", ())]
    before = list(dict.fromkeys(one for one in told if one))
    tx.versions.append(
        service=request.target,
        version=version,
        before=SEPARATOR.join(before)[:1000],
        kind=request.kind,
        complete=done,
        action_seq=record.seq,
    )


def _chosen(kind: str, params: Mapping[str, JsonValue], outcome: Outcome) -> str:
    if kind in ROLLOUTS:
        return str(params.get("version", ""))
    return str(outcome.evidence.get("version", "")) if kind == Kind.START else ""


def rolled_back(tx: Tx) -> Mapping[str, RanVersion]:
    """The newest row of each service that was last rolled back, by service."""
    return {name: one for name, one in tx.versions.latest().items() if one.kind == Kind.ROLLBACK}


def why_not_again(row: RanVersion, version: str) -> str:
    """Why that version is not deployed by a controller after this rollback; "" if it may be."""
    if version == row.version or version not in row.before.split(SEPARATOR):
        return ""
    return (
        f"version {version} was rolled back to {row.version} ({show_id('X', row.action_seq)}): it is deployed again "
        "once a person asks for it, or when another version is declared"
    )


def _watched(item: WorkItem) -> str:
    action = int(item.payload.get("action", 0))
    return show_id("X", action) if action else f"version {item.payload.get('version', '')}"


def rollouts_under_way(tx: Tx) -> Mapping[str, str]:
    """By service, the change of version that has not ended: its record is open, or its watch runs.

    The watch of a restart or of a changed count is no rollout.
    """
    states = (OutboxState.PREPARED, OutboxState.RUNNING, OutboxState.RECOVERY_PENDING)
    found = {
        one.request.target: f"{one.id} ({one.request.kind}) is under way"
        for one in tx.outbox.in_state(*states)
        if one.request.kind in ROLLOUTS
    }
    for state in (WorkState.READY, WorkState.LEASED):
        before: int | None = None
        while True:
            page = tx.work.list(Page(kind=WATCH, state=state.value, before=before, limit=PAGE))
            for item in page:
                if item.payload.get("kind") in ROLLOUTS or item.payload.get("rollout"):
                    told = f"the watch of {_watched(item)} still runs"
                    found.setdefault(item.target, told)
            if len(page) < PAGE:
                break
            before = page[-1].seq
    return found
