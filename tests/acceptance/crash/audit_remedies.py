"""The auditor's rules about what follows an alert, a deploy, a load and another system's request.

As everywhere in the auditor, nothing of the product is used here: rows of plain SQL, and notes that others made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.acceptance.crash.audit import Facts

__all__ = ["RULES", "lost_rollbacks"]

SECOND = 1_000_000
LOST_FOR_GOOD = ("failed", "rejected", "superseded")
ENDED_WATCH = ("success", "failed", "unobserved", "replaced")


def each_alert_is_answered_once(facts: Facts) -> Iterator[str]:
    """One row for each outage, one line for each step of its playbook, one end; one action, which the log names."""
    events = facts.tables["events"]
    if len(events) != facts.alerts:
        yield f"{len(events)} rows of events, monitoring told of {facts.alerts} outages"
    for event in events:
        log, shown = event["remediation_log"] or [], f"E-{event['seq']} ({event['remediation_status']})"
        kinds = Counter(line["kind"] for line in log if line.get("step") is None)
        if (kinds["triage"], kinds["end"]) != (1, 1) or log[-1]["kind"] != "end":
            yield f"{shown} was begun {kinds['triage']} times and ended {kinds['end']} times"
        if event["remediation_status"] == "running":
            yield f"{shown} was never finished"
        places = [line["step"] for line in log if line.get("step") is not None]
        if places != sorted(set(places)):
            yield f"{shown} took its steps in the order {places}"
        asked = [row for row in facts.tables["outbox"] if str(row["key"]).startswith(f"playbook:E-{event['seq']}:")]
        named = {line["action"] for line in log if line["kind"] == "decide" and "action" in line}
        own = [row for row in asked if row["approval_seq"] is None]
        if {f"X-{row['seq']}" for row in own} != named or len(own) > 1:
            yield f"{shown} names {sorted(named)}, its records are {[row['seq'] for row in own]}"


def one_restart_answers_one_loss(facts: Facts) -> Iterator[str]:
    """Where only alerts repair: as many restarts that came to something as replicas were lost."""
    if not facts.alerts:
        return
    lost = Counter(service for service, _, _ in facts.lost)
    done = Counter(
        row["target"]
        for row in facts.tables["outbox"]
        if row["kind"] == "restart_service" and row["state"] == "succeeded"
    )
    if lost != done:
        yield f"{dict(lost)} were lost, and {dict(done)} restarts were made"


def a_window_never_moves(facts: Facts) -> Iterator[str]:
    """A watch lasts from its action for as long as it was to last, whoever carries it on, and ends no earlier well."""
    watches = {row["seq"]: row for row in facts.tables["deploy_watches"]}
    for kept in facts.kept:
        for before in kept["deploy_watches"]:
            after = watches.get(before["seq"])
            if after is None or (after["started"], after["deadline"]) != (before["started"], before["deadline"]):
                yield f"the window of V-{before['seq']} ({before['service']}) was moved by a death"
    if facts.watch_window_s is None:
        return
    for seq, watch in watches.items():
        shown, record = f"V-{seq} ({watch['service']}, {watch['status']})", facts.outbox[watch["action_seq"]]
        if watch["started"] != record["finished_at"]:
            yield f"{shown} does not begin with the end of X-{record['seq']}"
        if watch["deadline"] - watch["started"] != int(facts.watch_window_s * SECOND):
            yield f"{shown} has a window of {(watch['deadline'] - watch['started']) / SECOND:g} s"
        if watch["status"] not in ENDED_WATCH:
            yield f"{shown} was never ended"
        if watch["status"] == "success" and watch["ended_at"] < watch["deadline"]:
            yield f"{shown} ended well before its deadline"


def a_failed_version_is_rolled_back_once(facts: Facts) -> Iterator[str]:
    """A deploy whose watch failed: one quarantine, and one rollback that was decided and carried out."""
    for service in {row["service"] for row in facts.tables["deploy_watches"]}:
        failed = {
            row["version"]
            for row in facts.tables["deploy_watches"]
            if row["service"] == service and row["status"] == "failed" and row["changes_version"]
        }
        held = [row["version"] for row in facts.tables["quarantines"] if row["service"] == service]
        if sorted(held) != sorted(failed):
            yield f"{service}: the versions {sorted(failed)} failed, {sorted(held)} are in quarantine"
        done = [row for row in _of(facts, "rollback_service", service) if row["state"] == "succeeded"]
        if len(done) != len(failed):
            yield f"{service}: {len(failed)} versions failed, {len(done)} rollbacks were carried out"
        asked = [
            row
            for row in facts.tables["decisions"]
            if (row["kind"], row["target"], row["source"]) == ("rollback_service", service, "deploy_watch")
        ]
        lost = lost_rollbacks(_of(facts, "rollback_service", service))
        if len(asked) != len(failed) + len(lost):
            yield f"{service}: {len(failed)} versions failed, {len(asked)} rollbacks were decided, {len(lost)} lost"


def another_system_acts_once(facts: Facts) -> Iterator[str]:
    """What was authorised is claimed once, done once, and its end written once."""
    outside = [row for row in facts.tables["outbox"] if row["request"]["source"] == "api"]
    done = Counter(f"{row['kind']} {row['target']}" for row in outside)
    if done != Counter(facts.deeds) or any(count > 1 for count in done.values()):
        yield f"claimed: {dict(done)}, done: {dict(Counter(facts.deeds))}"
    for row in outside:
        if row["state"] != "succeeded":
            yield f"the result of X-{row['seq']} ({row['kind']} {row['target']}, {row['state']}) was lost"


def a_count_has_one_revision(facts: Facts) -> Iterator[str]:
    """Revisions without a gap; a new one only after the one before came to nothing; the last one verified."""
    by_service: dict[str, list[dict[str, Any]]] = {}
    for row in facts.tables["intents"]:
        by_service.setdefault(row["service"], []).append(row)
    for service, rows in by_service.items():
        if [row["revision"] for row in rows] != list(range(1, len(rows) + 1)):
            yield f"{service} has the revisions {[row['revision'] for row in rows]}"
        for before, after in pairwise(rows):
            record = facts.outbox.get(before["action_seq"])
            if before["state"] not in LOST_FOR_GOOD or (record is not None and record["state"] == "succeeded"):
                yield f"{service}: revision {after['revision']} came although {before['revision']} is {before['state']}"
        if rows[-1]["state"] != "verified":
            yield f"{service}: revision {rows[-1]['revision']} is {rows[-1]['state']}"
        yield from _one_action_for_each(facts, service, rows)
    for kept in facts.kept:
        known = {row["intent_id"]: row["revision"] for row in facts.tables["intents"]}
        for before in kept["intents"]:
            if known.get(before["intent_id"]) != before["revision"]:
                yield f"revision {before['revision']} of {before['service']} was lost by a death"


def _one_action_for_each(facts: Facts, service: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    records = [row for row in _of(facts, "scale_service", service) if row["request"]["source"] == "autoscaler"]
    named = [row["action_seq"] for row in rows if row["action_seq"] is not None]
    if sorted(named) != [row["seq"] for row in records]:
        yield f"{service}: its revisions name the actions {named}, there are {[row['seq'] for row in records]}"
    for name in ("action_seq", "decision_seq"):
        if any(count > 1 for count in Counter(row[name] for row in rows if row[name] is not None).values()):
            yield f"{service}: two revisions share one {name}"


def no_notice_is_written_twice(facts: Facts) -> Iterator[str]:
    """A death may tell people again what they were told, once for each death; it never writes a second notice."""
    written = Counter(row["summary"] for row in facts.tables["journal"] if row["topic"] == "notice")
    for summary, count in written.items():
        if count > 1:
            yield f"{summary!r} was written {count} times"
    again = sum((Counter(facts.told) - written).values())
    if again > len(facts.kept):
        yield f"people were told {again} times what they had heard, by {len(facts.kept)} deaths"


def lost_rollbacks(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that a death prevented: never begun, or found afterwards not to have been done."""
    return [
        row
        for row in records
        if (row["kind"], row["request"]["source"]) == ("rollback_service", "deploy_watch")
        and (row["state"] == "abandoned" or (row["state"] == "failed" and row["settled_by"]))
    ]


def _of(facts: Facts, kind: str, target: str) -> list[dict[str, Any]]:
    return [row for row in facts.tables["outbox"] if (row["kind"], row["target"]) == (kind, target)]


RULES = (
    each_alert_is_answered_once,
    one_restart_answers_one_loss,
    a_window_never_moves,
    a_failed_version_is_rolled_back_once,
    another_system_acts_once,
    a_count_has_one_revision,
    no_notice_is_written_twice,
)
