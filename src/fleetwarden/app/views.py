"""Records as the JSON that HTTP and `--json` answer: one function per kind of item, the same for both.

Times are RFC 3339 in UTC.  Every item of a list has `id` and `at`.  No view reads anything; no view hides a field that
would change what a person does.
"""

from __future__ import annotations

from typing import TypeAlias

from fleetwarden.domain.actions import ActionApproval, ActionDecision, ActionExecution, OutboxRecord, Vote
from fleetwarden.domain.fleet import ObservedInstance
from fleetwarden.domain.health import FleetHealthEvidence
from fleetwarden.domain.identifiers import JsonValue, rfc3339, show_id
from fleetwarden.ports.stores import Freeze, JournalEntry, StoredOverride, StoredReport, StoredToken, WorkItem

__all__ = [
    "Item",
    "approval",
    "decision",
    "execution",
    "freeze",
    "freeze_file",
    "health",
    "instance",
    "journal",
    "override",
    "record",
    "report",
    "token",
    "work",
]

Item: TypeAlias = dict[str, JsonValue]


def decision(one: ActionDecision) -> Item:
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "kind": one.request.kind,
        "target": one.request.target,
        "params": dict(one.request.params),
        "verdict": one.verdict.value,
        "code": one.code,
        "rule": one.rule,
        "rule_source": one.rule_source,
        "policy_digest": one.policy_digest,
        "numbers": dict(one.numbers),
        "reason": one.reason,
        "source": one.request.source,
        "requested_by": one.request.requested_by,
        "request_reason": one.request.reason,
        "request_digest": one.request_digest,
        "dry_run": one.request.dry_run,
        "evidence": {
            "observed_at": rfc3339(one.request.evidence.observed_at),
            "reason": one.request.evidence.reason,
            **one.request.evidence.facts,
        },
        "approval_id": None if one.approval_seq is None else show_id("A", one.approval_seq),
        "action_id": None if one.action_seq is None else show_id("X", one.action_seq),
    }


def approval(one: ActionApproval) -> Item:
    return {
        "id": one.job_id,
        "job_id": one.job_id,
        "short_id": one.id,
        "at": rfc3339(one.created_at),
        "kind": one.request.kind,
        "target": one.request.target,
        "params": dict(one.request.params),
        "status": one.status.value,
        "digest": one.digest,
        "decision_id": show_id("D", one.decision_seq),
        "reason": one.reason,
        "request_reason": one.request.reason,
        "waives": list(one.waives),
        "requested_by": one.request.requested_by,
        "source": one.request.source,
        "dry_run": one.request.dry_run,
        "evidence": dict(one.request.evidence.facts),
        "expires_at": rfc3339(one.expires_at),
        "needed": {"count": one.needed.count, "teams": list(one.needed.teams), "nobody": one.needed.nobody},
        "votes": [_vote(vote) for vote in one.votes],
        "break_glass": one.request.break_glass,
        "note": one.note,
        "ended_at": rfc3339(one.ended_at),
        "superseded_by": None if one.superseded_by is None else show_id("A", one.superseded_by),
    }


def _vote(one: Vote) -> Item:
    return {
        "by": one.by,
        "decision": one.decision,
        "reason": one.reason,
        "at": rfc3339(one.at),
        "teams": list(one.teams),
    }


def execution(one: ActionExecution) -> Item:
    return {
        "id": one.id,
        "action_id": one.id,
        "at": rfc3339(one.at),
        "decision_id": show_id("D", one.decision_seq),
        "kind": one.kind,
        "target": one.target,
        "source": one.source,
        "state": one.state.value,
        "ok": one.ok,
        "dry_run": one.dry_run,
        "code": one.code or None,
        "detail": one.detail,
        "started_at": rfc3339(one.started_at),
        "finished_at": rfc3339(one.finished_at),
        "evidence": dict(one.evidence),
    }


def record(one: OutboxRecord) -> Item:
    """An action: its outbox record."""
    return {
        "id": one.id,
        "action_id": one.id,
        "at": rfc3339(one.prepared_at),
        "kind": one.request.kind,
        "target": one.request.target,
        "params": dict(one.request.params),
        "state": one.state.value,
        "key": one.key,
        "digest": one.request_digest,
        "decision_id": show_id("D", one.decision_seq),
        "approval_id": None if one.approval_seq is None else show_id("A", one.approval_seq),
        "source": one.request.source,
        "requested_by": one.request.requested_by,
        "dry_run": one.request.dry_run,
        "prepared_at": rfc3339(one.prepared_at),
        "expires_at": rfc3339(one.expires_at),
        "started_at": rfc3339(one.started_at),
        "horizon_at": rfc3339(one.horizon_at),
        "finished_at": rfc3339(one.finished_at),
        "ok": None if one.outcome is None or one.outcome.unknown_outcome else one.outcome.ok,
        "code": None if one.outcome is None else one.outcome.code or None,
        "detail": "" if one.outcome is None else one.outcome.detail,
        "settled_by": one.settled_by or None,
        "note": one.note,
    }


def work(one: WorkItem) -> Item:
    return {
        "id": show_id("W", one.seq),
        "at": rfc3339(one.created_at),
        "kind": one.kind,
        "target": one.target,
        "params": dict(one.payload),
        "state": one.state.value,
        "attempts": one.attempts,
        "attempts_max": one.max_attempts,
        "not_before": rfc3339(one.not_before),
        "deadline": rfc3339(one.deadline),
        "lease_until": rfc3339(one.lease_until),
        "holder": one.holder,
        "error": one.error or None,
        "result": dict(one.result),
    }


def freeze(one: Freeze) -> Item:
    return {
        "id": show_id("F", one.seq),
        "at": rfc3339(one.at),
        "scope": one.scope,
        "value": one.value,
        "owner": one.owner,
        "reason": one.reason,
        "until": rfc3339(one.until),
        "lifted_at": rfc3339(one.lifted_at),
        "lifted_by": one.lifted_by or None,
    }


def freeze_file(path: str) -> Item:
    """A FREEZE file, in the shape of a freeze; nobody knows since when it is there."""
    return {
        "id": "file",
        "at": None,
        "scope": "all",
        "value": "",
        "owner": "file",
        "reason": f"the file {path} exists",
        "until": None,
        "lifted_at": None,
        "lifted_by": None,
    }


def override(one: StoredOverride) -> Item:
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "type": "governance_rule",
        "scope": "action_policy",
        "active": one.active,
        "rule": dict(one.rule),
        "written_by": one.written_by,
    }


def token(one: StoredToken) -> Item:
    return {
        "id": one.name,
        "at": rfc3339(one.created_at),
        "name": one.name,
        "person": one.person,
        "roles": list(one.roles),
        "teams": list(one.teams),
        "expires_at": rfc3339(one.expires_at),
        "revoked_at": rfc3339(one.revoked_at),
    }


def report(one: StoredReport) -> Item:
    body = {key: value for key, value in one.body.items() if key != "at"}
    return {"id": show_id("R", one.seq), "at": rfc3339(one.at), "kind": one.kind, **body}


def journal(one: JournalEntry) -> Item:
    return {
        "id": show_id("N", one.seq),
        "at": rfc3339(one.at),
        "kind": one.topic,
        "target": one.subject,
        "actor": one.actor,
        "severity": one.severity,
        "summary": one.summary,
        "detail": dict(one.detail),
    }


def instance(one: ObservedInstance) -> Item:
    return {
        "id": one.id,
        "pid": one.pid,
        "port": one.port,
        "status": one.status.value,
        "version": one.version,
        "started_at": rfc3339(one.started_at),
        "detail": one.detail,
    }


def health(one: FleetHealthEvidence) -> Item:
    return {
        "schema_version": one.schema_version,
        "status": one.status.value,
        "ready": one.ready,
        "convergence_ready": one.convergence_ready,
        "autoscaling_ready": one.autoscaling_ready,
        "generated_at": rfc3339(one.generated_at),
        "dependencies": {
            name: {
                "status": each.status.value,
                "checked_at": rfc3339(each.checked_at),
                "last_success_at": rfc3339(each.last_success_at),
                "freshness_seconds": each.freshness_seconds,
                "error_class": each.error_class,
                "diagnostics": list(each.diagnostics),
            }
            for name, each in one.dependencies.items()
        },
    }
