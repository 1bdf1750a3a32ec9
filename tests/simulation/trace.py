"""Every change of the database, in order, written down by the database itself.

Triggers copy each change of the tables that the rules are about into a table of their own, so that what the auditor
reads owes nothing to the product's code.  A fact that the harness writes at the end of each transaction says which step
of the history it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

__all__ = ["MARKER", "Change", "changes", "empty", "install"]

MARKER = "sim.step"
_DECODER = msgspec.json.Decoder()

_WATCHED: dict[str, tuple[str, ...]] = {
    "decisions": (
        "seq", "at", "kind", "target", "source", "key", "dry_run", "request", "request_digest", "verdict", "code",
        "waives", "approval_seq", "action_seq",
    ),
    "approvals": (
        "seq", "status", "kind", "target", "request", "digest", "decision_seq", "waives", "created_at", "expires_at",
        "votes", "ended_at", "superseded_by", "note", "needed",
    ),
    "votes": ("seq", "approval_seq", "person", "decision", "teams", "at"),
    "outbox": (
        "seq", "key", "state", "kind", "target", "dry_run", "request", "request_digest", "decision_seq", "approval_seq",
        "prepared_at", "expires_at", "fence", "started_at", "horizon_at", "final_if_acknowledged",
        "negatives_by_person", "finished_at", "outcome", "settled_by", "note", "host",
    ),
    "executions": ("seq", "action_seq", "decision_seq", "at", "kind", "target", "state", "ok", "dry_run", "code"),
    "work_items": ("seq", "kind", "key", "state", "attempts", "token", "target", "holder"),
    "leases": ("cadence", "shard", "holder", "token", "expires_at"),
    "freezes": ("seq", "scope", "until", "at", "lifted_at"),
    "policy_overrides": ("id", "rule", "active"),
    "service_overrides": ("seq", "service", "replicas", "state", "until", "ended_at"),
    "intents": (
        "seq", "service", "revision", "state", "operation", "desired", "intent", "decision_seq", "approval_seq",
        "action_seq", "accepted_at", "moved_at", "convergence",
    ),
    "deploy_watches": (
        "seq", "service", "action_seq", "kind", "source", "from_replicas", "replica", "on_fail", "status", "started",
        "settled", "grace_until", "deadline", "poll", "made", "usable", "healthy", "probes", "ended_at", "follow_up",
        "version", "changes_version", "proven", "definition",
    ),
    "quarantines": ("seq", "service", "version", "watch_seq", "at", "cleared_at", "cleared_by"),
    "ran_versions": ("seq", "service", "version", "before", "kind", "complete", "action_seq", "at"),
    "placements": ("service", "host", "at"),
    "seals": ("number", "first", "last", "count", "root", "previous", "at", "digest"),
    "foreign_changes": ("seq", "service", "field", "before", "after", "hold_until", "pauses", "status"),
    "events": (
        "seq", "at", "key", "source", "severity", "phase", "class", "service", "body", "repeats", "repeat_of", "flap",
        "late", "closes", "ended_at", "ended_by", "remediation_status", "remediation_log",
    ),
}  # fmt: skip
# Of these tables only some rows are about a rule: what is open of storms, notices of storms and events, and pages.
_TOLD = """NEW.severity = 'critical' OR NEW.detail LIKE '%"storm"%' OR NEW.detail LIKE '%"event"%'"""
_SOME: dict[str, tuple[str, tuple[str, ...], str]] = {
    "storms": ("facts", ("value", "at"), "NEW.name = 'storms'"),
    "notices": (
        "journal",
        ("seq", "at", "actor", "subject", "severity", "detail"),
        f"NEW.topic = 'notice' AND ({_TOLD})",
    ),
}


class Change(NamedTuple):
    """One row as it is after a change.  `table` "commit" closes a transaction; `row` then says which."""

    step: int
    what: str  # insert | update | delete
    table: str
    row: dict[str, Any]


def install(path: Path) -> None:
    """Add the triggers to a database that no plane has open."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sim_trace (n INTEGER PRIMARY KEY, what TEXT, of TEXT, row TEXT)")
        connection.execute("CREATE TABLE sim_silence (n INTEGER PRIMARY KEY)")
        for table, columns in _WATCHED.items():
            for what, side in (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD")):
                row = ", ".join(f"'{name}', {side}.\"{name}\"" for name in columns)
                connection.execute(
                    f"CREATE TRIGGER sim_{table}_{what} AFTER {what} ON {table} {_unless_silent(what)} BEGIN "
                    f"INSERT INTO sim_trace (what, of, row) VALUES ('{what}', '{table}', json_object({row})); END"
                )
        for name, (table, columns, when) in _SOME.items():
            row = ", ".join(f"'{column}', NEW.\"{column}\"" for column in columns)
            for what in ("insert", "update"):
                connection.execute(
                    f"CREATE TRIGGER sim_{name}_{what} AFTER {what} ON {table} WHEN {when} BEGIN "
                    f"INSERT INTO sim_trace (what, of, row) VALUES ('{what}', '{name}', json_object({row})); END"
                )
        for what in ("insert", "update"):
            connection.execute(
                f"CREATE TRIGGER sim_marker_{what} AFTER {what} ON facts WHEN NEW.name = '{MARKER}' BEGIN "
                "INSERT INTO sim_trace (what, of, row) VALUES ('insert', 'commit', NEW.value); END"
            )
    connection.close()


def _unless_silent(what: str) -> str:
    return "WHEN NOT EXISTS (SELECT 1 FROM sim_silence)" if what == "delete" else ""


def empty(connection: sqlite3.Connection) -> None:
    """Make the database as it was when it was new: for the next history on the same connections."""
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rootpage DESC")
        if name not in ("sim_silence", "fleetwarden_schema")
    ]
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO sim_silence VALUES (1)")
    for name in tables:
        connection.execute(f"DELETE FROM {name}")
    connection.execute("DELETE FROM sim_silence")
    connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys = ON")


def changes(path: Path) -> Iterator[Change]:
    """All changes in order, each with the step of its transaction; a transaction's commit comes last."""
    connection = sqlite3.connect(path)
    try:
        waiting: list[tuple[str, str, dict[str, Any]]] = []
        for what, table, text in connection.execute("SELECT what, of, row FROM sim_trace ORDER BY n"):
            row = _DECODER.decode(text)
            if table != "commit":
                waiting.append((what, table, row))
                continue
            step = int(row["step"])
            yield from (Change(step, *one) for one in waiting)
            yield Change(step, what, table, row)
            waiting = []
        assert not waiting, "a transaction without its marker"
    finally:
        connection.close()
