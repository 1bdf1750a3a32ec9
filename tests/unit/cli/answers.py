"""Answers of a plane as HTTP gives them, with what a test cares about changed."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]
AT = "2026-12-02T12:00:00.000000Z"


def service(name: str = "web", **changes: Any) -> Item:
    item: Item = {
        "id": name,
        "name": name,
        "group": "demo",
        "substrate": "process",
        "host": None,
        "mode": "live",
        "acts": True,
        "controller_mode": "static",
        "desired": {"state": "running", "replicas": 2, "version": "1.0", "source": "fleet.yml:8"},
        "observed": {
            "status": "up",
            "presence": "started",
            "ready": 2,
            "existing": 2,
            "total": 2,
            "version": "1.0",
            "observed_at": "2026-12-02T11:59:59.800000Z",
            "since": "2026-12-02T11:59:59.600000Z",
            "source": "process",
            "detail": "",
        },
        "status": "up",
        "ready": 2,
        "instances": [
            {"id": "0", "pid": 4711, "port": 9100, "status": "up", "version": "1.0", "started_at": AT, "detail": ""},
            {"id": "1", "pid": 4712, "port": 9101, "status": "up", "version": "1.0", "started_at": AT, "detail": ""},
        ],
        "last_decision": None,
        "last_action": None,
        "open_action": None,
        "approval": None,
        "reason": "as declared",
        "reason_code": "as_declared",
        "overrides": None,
        "freeze": None,
        "at": AT,
    }
    return {**item, **changes}


def down(name: str = "clumsy", **changes: Any) -> Item:
    """A service of one replica that is down."""
    observed = {
        "status": "down",
        "presence": "started",
        "ready": 0,
        "existing": 0,
        "total": 1,
        "version": "1.0",
        "observed_at": "2026-12-02T11:59:11.200000Z",
        "since": "2026-12-02T11:59:11.000000Z",
        "source": "process",
        "detail": "exited with code 1",
    }
    desired = {"state": "running", "replicas": 1, "version": "1.0", "source": "fleet.yml:14"}
    instances = [
        {"id": "0", "pid": None, "port": 9110, "status": "down", "version": "1.0", "started_at": AT, "detail": ""}
    ]
    return service(
        name,
        **{"status": "down", "ready": 0, "desired": desired, "observed": observed, "instances": instances, **changes},
    )


def execution(**changes: Any) -> Item:
    return {
        "id": "X-91",
        "action_id": "X-91",
        "at": "2026-12-02T11:59:48.000000Z",
        "decision_id": "D-237",
        "kind": "restart_service",
        "target": "web",
        "source": "reconciler",
        "state": "executed",
        "ok": True,
        "dry_run": False,
        "code": None,
        "detail": "restarted web#1",
        "started_at": AT,
        "finished_at": AT,
        "evidence": {},
        **changes,
    }


def action(**changes: Any) -> Item:
    return {
        "id": "X-92",
        "action_id": "X-92",
        "at": AT,
        "kind": "restart_service",
        "target": "web",
        "params": {"replica": 1},
        "state": "running",
        "decision_id": "D-238",
        "approval_id": None,
        "dry_run": False,
        "started_at": AT,
        "horizon_at": "2026-12-02T12:00:30.000000Z",
        "ok": None,
        "code": None,
        "detail": "",
        "settled_by": None,
        "note": "",
        **changes,
    }


def decision(**changes: Any) -> Item:
    return {
        "id": "D-238",
        "at": "2026-12-02T12:02:11.000000Z",
        "kind": "restart_service",
        "target": "clumsy",
        "params": {"replica": 0},
        "verdict": "deny",
        "code": "rate",
        "rule": "restart_service clumsy, auto, rate 3 per 3600 s",
        "rule_source": "policy.yml:9",
        "policy_digest": "sha256:9f2c",
        "numbers": {},
        "reason": "denied, restart_service clumsy was allowed 3 times in the last 3600 s, the limit is 3",
        "source": "reconciler",
        "requested_by": "reconciler",
        "dry_run": False,
        "approval_id": None,
        "action_id": None,
        **changes,
    }


def approval(**changes: Any) -> Item:
    return {
        "id": "action_approval:17",
        "job_id": "action_approval:17",
        "short_id": "A-17",
        "at": "2026-12-02T11:58:00.000000Z",
        "kind": "stop_service",
        "target": "web",
        "params": {},
        "status": "pending",
        "digest": "sha256:0a1b",
        "decision_id": "D-240",
        "reason": "no rule matches and the shipped default asks a person first",
        "request_reason": "declared stopped, 2 still running",
        "waives": ["tier"],
        "requested_by": "reconciler",
        "source": "reconciler",
        "dry_run": False,
        "evidence": {
            "total": 2,
            "instances": [{"id": "0", "pid": 4711, "port": 9100}, {"id": "1", "pid": 4712, "port": 9101}],
        },
        "expires_at": "2026-12-03T12:02:00.000000Z",
        "needed": {"count": 1, "teams": []},
        "votes": [],
        "note": "",
        "ended_at": None,
        "superseded_by": None,
        **changes,
    }


def status(*services: Item, **changes: Any) -> Item:
    counts = {
        state: sum(1 for one in services if one["status"] == state) for state in ("up", "degraded", "down", "unknown")
    }
    return {
        "at": AT,
        "version": "0.1.0",
        "store": "sqlite",
        "services_total": len(services),
        "services_by_status": counts,
        "acting_on": ["process"],
        "reconciler": "on",
        "autoscaler": "off",
        "last_pass_s": 0.8,
        "freezes": [],
        "freeze_file": None,
        "approvals_waiting": 0,
        "outcome_unknown": 0,
        "health": "healthy",
        "policy": {"source": "shipped default", "digest": "sha256:ab", "rules": 3, "allow_self_approval": False},
        "warnings": [],
        "config_dir": "fleet",
        "data_dir": "fleet/.fleetwarden",
        "services": list(services),
        **changes,
    }


FREEZE: Item = {
    "id": "F-3",
    "at": AT,
    "scope": "all",
    "value": "",
    "owner": "ana",
    "reason": "lunch",
    "until": "2026-12-02T13:00:00.000000Z",
    "lifted_at": None,
    "lifted_by": None,
}
