"""A watch begins with the end of the action that it watches, in the same transaction, and takes the place of another.

The look that led to a repair is evidence for the watch that ran until then: where that shows what was watched down, it
has failed, and the repair does not hide it.  A repair while a version is on trial does not end the trial either: the
new watch takes it over.  Nothing is looked at here, and nothing is proposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fleetwarden.controllers.watch_ending import end_watch
from fleetwarden.domain.actions import ActionRequest, Kind, OutboxRecord, Outcome, Source
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, Probe, Sight, WatchStatus, with_probe
from fleetwarden.domain.deploy_watch_verdict import Verdict
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros
from fleetwarden.domain.intent_requests import stands_for_intent
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.versions import ROLLOUTS
from fleetwarden.ports.stores import Page, Tx, WorkDraft
from fleetwarden.ports.watches import WatchDraft

__all__ = [
    "GRACE_S",
    "WORK_KIND",
    "begin_watch",
    "fail_rollout",
    "is_watched",
    "on_trial",
    "open_watch",
    "step_of",
    "work_key",
]

WORK_KIND = "deploy_watch"
GRACE_S = 15.0
CHAIN_MAX = 50  # watches that took each other's place, looked back over
WATCHED = frozenset({Kind.RESTART, Kind.START, Kind.DEPLOY, Kind.ROLLBACK})


def is_watched(request: ActionRequest, *, down_too: bool) -> bool:
    """Whether a watch follows: a growing count that follows load is watched, a shrinking one where policy says so."""
    if stands_for_intent(request):
        return request.source == Source.AUTOSCALER and (request.direction == "up" or down_too)
    return request.kind in WATCHED


def on_trial(request: ActionRequest, to: OutboxState, outcome: Outcome) -> bool:
    """Whether a deploy that failed has brought its version in all the same: a part that fails is judged as a whole is,
    and not tried again and again."""
    dry = request.dry_run or outcome.dry_run
    return request.kind == Kind.DEPLOY and to is OutboxState.FAILED and outcome.code == "partial" and not dry


def begin_watch(tx: Tx, record: OutboxRecord, outcome: Outcome, window_s: float) -> DeployWatch:
    """The watch of an action that has just succeeded, or failed in part.  Part of commit 2, or of a settlement."""
    request = record.request
    before = tx.watches.running(request.target)
    if before is not None and (shown := _shown_down(tx, before, request)) is not None:
        _fail(tx, before, shown)
        before = None
    return open_watch(tx, _draft(tx.now(), record, outcome, before, window_s), before)


def fail_rollout(tx: Tx, record: OutboxRecord, outcome: Outcome, window_s: float) -> DeployWatch:
    """The watch of a roll-out that stopped because the version did not come up: it has failed before it began.

    Quarantine and rollback follow as from a look.  Part of commit 2.
    """
    before = tx.watches.running(record.request.target)
    watch = open_watch(tx, _draft(tx.now(), record, outcome, before, window_s), before)
    return end_watch(tx, watch, Verdict(status=WatchStatus.FAILED, reason=f"not up: {outcome.detail[:300]}"))


def open_watch(tx: Tx, draft: WatchDraft, before: DeployWatch | None) -> DeployWatch:
    """Begin a watch, visibly in the place of the one that runs, with its first step."""
    if before is not None:  # the running one has to end first: there is one for each service
        end_watch(tx, before, Verdict(status=WatchStatus.REPLACED, reason="a later watch took its place"))
    watch = tx.watches.begin(draft)
    if before is not None:
        tx.watches.replaced(before.seq, watch.seq)
    tx.work.enqueue(step_of(watch, tx.now()))
    return watch


def step_of(watch: DeployWatch, now: Micros) -> WorkDraft:
    """The next step of a watch, due at once."""
    return WorkDraft(
        kind=WORK_KIND,
        key=work_key(watch),
        payload={
            "action": watch.action_seq or 0,
            "service": watch.service,
            "kind": watch.kind,
            "watch": watch.seq,
            "rollout": watch.changes_version,
            "version": watch.version,
        },
        not_before=now,
        deadline=watch.deadline,
        target=watch.service,
    )


def work_key(watch: DeployWatch) -> str:
    """The key of the work that carries a watch on."""
    return f"{WORK_KIND}:{watch.id if watch.action_seq is None else f'X-{watch.action_seq}'}"


def _draft(
    now: Micros, record: OutboxRecord, outcome: Outcome, before: DeployWatch | None, window_s: float
) -> WatchDraft:
    request = record.request
    facts = request.evidence.facts
    ran = str(facts.get("version", ""))
    rollout = request.kind in ROLLOUTS
    chosen = request.params.get("version", "") if rollout else outcome.evidence.get("version", "")
    from_replicas = _count_before(facts, request)
    grace = min(GRACE_S, window_s / 2)
    draft = WatchDraft(
        service=request.target,
        action_seq=record.seq,
        kind=request.kind,
        source=request.source,
        version=str(chosen or ("" if rollout else ran)),
        from_version=ran if rollout else "",
        from_replicas=from_replicas,
        replica=str(request.params["replica"]) if request.kind == Kind.RESTART and "replica" in request.params else "",
        changes_version=rollout,
        on_fail=_on_fail(request, from_replicas),
        grace_until=now + int(grace * SECOND),
        deadline=now + int(window_s * SECOND),
    )
    if before is None or not before.changes_version or rollout:
        return draft
    return msgspec.structs.replace(
        draft,
        version=before.version,
        from_version=before.from_version,
        replica="",  # the version as a whole stays on trial
        changes_version=True,
        on_fail=before.on_fail,
        grace_until=max(now, before.grace_until),
        deadline=max(draft.deadline, before.deadline),
    )


def _on_fail(request: ActionRequest, from_replicas: int | None) -> OnFail:
    if request.kind == Kind.DEPLOY:
        return OnFail.ROLLBACK
    if request.source == Source.AUTOSCALER and from_replicas is not None:
        return OnFail.SCALE_BACK
    return OnFail.ESCALATE


def _count_before(facts: Mapping[str, JsonValue], request: ActionRequest) -> int | None:
    """From how many replicas a change that follows load came."""
    if request.kind != Kind.SCALE:
        return None
    scaling = facts.get("scaling")
    told = scaling.get("from_replicas") if isinstance(scaling, Mapping) else None
    count = told if told is not None else facts.get("total")
    return count if type(count) is int else None


def _shown_down(tx: Tx, watch: DeployWatch, request: ActionRequest) -> Probe | None:
    """The look behind a repair, if it shows what this watch watches down after its grace period."""
    seen, facts = request.evidence.observed_at, request.evidence.facts
    if request.kind != Kind.RESTART or seen is None or seen <= watch.settled:
        return None
    repaired = watch.kind == Kind.RESTART  # what was repaired needs it again: no grace, or a crash loop eats the budget
    if seen < watch.grace_until and not repaired:
        return None
    instances = [one for one in facts.get("instances", ()) if isinstance(one, Mapping)]
    down = [one for one in instances if one.get("status") == "down"]
    if watch.replica:
        found = any(str(one.get("id")) == watch.replica for one in down)
    elif watch.changes_version and watch.version and any(one.get("version") for one in instances):
        ours = [one for one in instances if one.get("version") == watch.version]
        found = bool(ours) and all(one.get("status") == "down" for one in ours)
    else:
        found = facts.get("status") == "down"
    if not found and not _fell_again(tx, watch, request, down):
        return None
    why = "; ".join(f"#{one.get('id')} {one.get('detail')}" for one in down if one.get("detail"))
    return Probe(
        at=seen,
        sight=Sight.DOWN,
        ready=int(facts.get("ready", 0)),
        total=int(facts.get("total", 0)),
        version=str(facts.get("version", "")),
        detail=(why or str(facts.get("detail", "")) or "down, and repaired meanwhile")[:300],
    )


def _fell_again(tx: Tx, watch: DeployWatch, request: ActionRequest, down: Sequence[Mapping[str, JsonValue]]) -> bool:
    """Whether this very replica was repaired under the watches that this one took over from: replicas that fall in
    turns replace each other's watches, and would hide each other's falls for ever."""
    replica, seen = str(request.params.get("replica", "")), request.evidence.observed_at
    mine = next((one for one in down if str(one.get("id")) == replica), None)
    if mine is None or seen is None or (watch.changes_version and mine.get("version", "") != watch.version):
        return False
    for one in tx.watches.list(Page(target=watch.service, limit=CHAIN_MAX)):
        if one.seq != watch.seq and one.status is not WatchStatus.REPLACED:
            break
        if one.kind != Kind.RESTART or one.action_seq is None:
            break
        if one.deadline > seen and str(tx.outbox.get(one.action_seq).request.params.get("replica", "")) == replica:
            return True
    return False


def _fail(tx: Tx, watch: DeployWatch, probe: Probe) -> None:
    seen = msgspec.structs.replace(
        watch,
        probes=with_probe(watch.probes, probe),
        made=watch.made + 1,
        usable=watch.usable + 1,
        last_at=probe.at,
    )
    end_watch(tx, seen, Verdict(status=WatchStatus.FAILED, reason=f"down: {probe.detail}"))
