"""The auditor: reads what is left after the crashes and says what is wrong with it.

It shares no code with the product.  The ledger comes from plain SQL through a plain driver; what really happened comes
from the kernel and from notes that the services wrote themselves.  Each rule is a short, obvious function over those
facts and returns sentences; no sentence means that nothing was found.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.acceptance.crash import audit_remedies as remedies

if TYPE_CHECKING:
    from tests.acceptance.crash.world import World

__all__ = ["RULES", "Facts", "audit", "gather"]

Row = dict[str, Any]
Start = tuple[str, int, str]

TABLES = (
    "decisions",
    "approvals",
    "outbox",
    "executions",
    "work_items",
    "leases",
    "freezes",
    "journal",
    "reports",
    "ran_versions",
    "events",
    "deploy_watches",
    "quarantines",
    "intents",
)
DOCUMENTS = ("request", "fence", "outcome", "evidence", "votes", "payload", "waives", "remediation_log")
OPEN = ("prepared", "running", "recovery_pending")
ENDED = {"succeeded": "executed", "failed": "failed", "simulated": "simulated"}
ROLLOUTS = ("deploy_service", "rollback_service")
ACTUATED = ("start_service", "stop_service", "restart_service", "scale_service", *ROLLOUTS)
ALLOWED = ("allow", "allow_notify")


@dataclass(frozen=True)
class Facts:
    """`tables`: every row of the ledger, ordered.  `starts`: what each service noted, in order.  `living`: what runs.
    `lost`: what the test killed itself.  `told`: the notices that people got.
    `declared`: how many of each service have to live (None: any number).
    `uses`: what the product counts against its budgets.  `persons`: records that a person settled or has yet to settle.
    `deeds`: what other systems did under a claim.  `kept`: watches and intents as they were after each death.
    `watch_window_s`: how long each watch of the story lasts; None: nobody carries watches on in it.  `alerts`: how many
    outages monitoring told of.
    """

    tables: Mapping[str, Sequence[Row]]
    starts: Sequence[Start]
    living: Sequence[Start]
    lost: Sequence[Start]
    told: Sequence[str]
    declared: Mapping[str, int]
    uses: Mapping[str, int]
    persons: frozenset[int] = frozenset()
    granted_may_wait: bool = False
    rate_max: int = 3
    deeds: Sequence[str] = ()
    kept: Sequence[Mapping[str, Sequence[Row]]] = ()
    watch_window_s: float | None = None
    alerts: int = 0
    outbox: Mapping[int, Row] = field(init=False)
    by_key: Mapping[str, Row] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outbox", {row["seq"]: row for row in self.tables["outbox"]})
        object.__setattr__(self, "by_key", {row["key"]: row for row in self.tables["outbox"]})


def gather(world: World, declared: Mapping[str, int], **more: Any) -> Facts:
    """Everything that there is to know about a world."""
    world.settle()
    tables = {}
    for name in TABLES:
        rows = world.database.rows(f"SELECT * FROM {name}")
        order = "seq" if rows and "seq" in rows[0] else None
        tables[name] = [_read(row) for row in (sorted(rows, key=lambda row: row[order]) if order else rows)]
    return Facts(
        tables=tables,
        starts=world.starts(),
        living=[one.start for one in world.living()],
        lost=world.lost(),
        told=world.told(),
        declared=declared,
        uses=world.uses(),
        deeds=world.deeds(),
        kept=world.kept,
        **more,
    )


def audit(facts: Facts) -> list[str]:
    """Everything that is wrong, each with the rule that it breaks."""
    return [f"{name}: {wrong}" for name, rule in RULES.items() for wrong in rule(facts)]


def _read(row: Row) -> Row:
    return {name: json.loads(value) if name in DOCUMENTS and value else value for name, value in row.items()}


def _asked(record: Row) -> int:
    """How many instances the record's action was to start."""
    kind, params = record["kind"], record["request"]["params"]
    before = record["request"]["evidence"]["facts"]
    match kind:
        case "start_service":
            return int(params["replicas"])
        case "scale_service":
            return max(0, int(params["replicas"]) - int(before["total"]))
        case "restart_service":
            return 1 if "replica" in params else int(before["total"])
        case "deploy_service" | "rollback_service":
            return sum(one["version"] != params["version"] or one["status"] == "down" for one in before["instances"])
        case _:
            return 0


def _shown(record: Row) -> str:
    return f"X-{record['seq']} ({record['kind']} {record['target']}, {record['state']})"


# --- the rules


def nothing_is_left_open(facts: Facts) -> Iterator[str]:
    for record in facts.tables["outbox"]:
        if record["state"] in OPEN and record["seq"] not in facts.persons:
            yield f"{_shown(record)} never ended"


def every_call_rests_on_a_decision(facts: Facts) -> Iterator[str]:
    decisions = {row["seq"]: row for row in facts.tables["decisions"]}
    live = Counter(row["decision_seq"] for row in facts.tables["outbox"] if row["state"] != "abandoned")
    for record in facts.tables["outbox"]:
        decision = decisions.get(record["decision_seq"])
        if decision is None or decision["verdict"] not in ALLOWED:
            yield f"{_shown(record)} was never allowed"
        elif decision["request_digest"] != record["request_digest"]:
            yield f"{_shown(record)} is not what was decided"
        request = record["request"]
        said = [request["kind"], request["target"], request.get("identity", {}), request.get("params", {})]
        if record["request_digest"] != _digest(said):
            yield f"the digest of {_shown(record)} is not that of its request"
    for decision, count in live.items():
        if count > 1:
            yield f"decision D-{decision} led to {count} actions"


def _digest(said: list[Any]) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def a_service_started_only_what_was_fenced(facts: Facts) -> Iterator[str]:
    for service, index, key in facts.starts:
        record = facts.by_key.get(key)
        if record is None:
            yield f"{service}#{index} was started under {key}, which no record has"
        elif record["started_at"] is None or record["target"] != service:
            yield f"{service}#{index} was started by {_shown(record)}, which was never fenced for it"


def nothing_was_done_twice(facts: Facts) -> Iterator[str]:
    for (service, index, key), count in Counter(facts.starts).items():
        if count > 1:
            yield f"{service}#{index} was started {count} times under {key}"
    for record in facts.tables["outbox"]:
        started = sum(1 for start in facts.starts if start[2] == record["key"])
        if started > _asked(record):
            yield f"{_shown(record)} started {started} instances, {_asked(record)} were asked for"


def nothing_was_lost_or_made_up(facts: Facts) -> Iterator[str]:
    """A success has its whole effect, a failure none, `partial` says so."""
    for record in facts.tables["outbox"]:
        if record["settled_by"] not in ("", "evidence"):
            continue  # a person's word
        started, asked = sum(1 for start in facts.starts if start[2] == record["key"]), _asked(record)
        code = (record["outcome"] or {}).get("code", "")
        if record["state"] == "succeeded" and started != asked:
            yield f"{_shown(record)} started {started} of {asked}"
        if record["state"] in ("failed", "simulated", "abandoned") and started and code != "partial":
            yield f"{_shown(record)} says {code or record['state']}, and started {started}"


def the_fleet_is_as_declared(facts: Facts) -> Iterator[str]:
    for service, count in facts.declared.items():
        slots = sorted(index for name, index, _ in facts.living if name == service)
        if slots != list(range(count)):
            yield f"{service} runs in slots {slots}, {count} are declared"
    for service, index, key in facts.living:
        record = facts.by_key.get(key)
        if service not in facts.declared:
            yield f"{service}#{index} runs and is not declared"
        if record is None:
            continue  # named by another rule
        code = (record["outcome"] or {}).get("code", "")
        if record["seq"] not in facts.persons and record["state"] != "succeeded" and code != "partial":
            yield f"{service}#{index} runs by {_shown(record)}"


def nobody_died_without_an_action(facts: Facts) -> Iterator[str]:
    """Whatever ended was killed by the test, or by a later action that was asked to end just that."""
    for start in (Counter(facts.starts) - Counter(facts.living)).elements():
        service, index, key = start
        began = facts.by_key[key]["seq"] if key in facts.by_key else 0
        by_action = any(
            record["target"] == service and record["seq"] > began and record["started_at"] and _ends(record, index)
            for record in facts.tables["outbox"]
        )
        if start not in facts.lost and not by_action:
            yield f"{service}#{index} of {key} ended, and nobody had asked for it"


def _ends(record: Row, index: int) -> bool:
    params = record["request"]["params"]
    match record["kind"]:
        case "stop_service":
            return True
        case "restart_service":
            return params.get("replica", index) == index
        case "scale_service":
            return index >= int(params["replicas"])
        case kind:
            return kind in ROLLOUTS


def every_end_is_in_the_ledger(facts: Facts) -> Iterator[str]:
    """One execution row for each end, and one that says `recovery_pending` for each outcome that was ever unknown."""
    rows = Counter((row["action_seq"], row["state"]) for row in facts.tables["executions"])
    for record in facts.tables["outbox"]:
        seq = record["seq"]
        for state in ENDED.values():
            expected = 1 if ENDED.get(record["state"]) == state else 0
            if rows[seq, state] != expected:
                yield f"{_shown(record)} has {rows[seq, state]} ledger rows {state}, {expected} expected"
        unknown = bool(record["settled_by"]) or record["state"] == "recovery_pending"
        if rows[seq, "recovery_pending"] != int(unknown):
            yield f"{_shown(record)}: its outcome was {'' if unknown else 'not '}unknown, the ledger differs"


def what_was_settled_rests_on_evidence(facts: Facts) -> Iterator[str]:
    for row in facts.tables["executions"]:
        record = facts.outbox[row["action_seq"]]
        if record["settled_by"] != "evidence" or row["state"] == "recovery_pending" or row["dry_run"]:
            continue
        seen = row["evidence"].get("observed_at", 0)
        if row["state"] == "executed" and seen < (record["started_at"] or 0):
            yield f"{_shown(record)} was settled by a look from before its call"
        if row["state"] == "failed" and row["at"] <= (record["horizon_at"] or 0):
            yield f"{_shown(record)} was settled as failed while its effect could still land"


def no_approval_is_lost(facts: Facts) -> Iterator[str]:
    asked = {row["decision_seq"]: row for row in facts.tables["approvals"]}
    for decision in facts.tables["decisions"]:
        if decision["verdict"] == "queue_approval" and decision["seq"] not in asked:
            yield f"decision D-{decision['seq']} asks a person, and nobody was asked"
    for approval in facts.tables["approvals"]:
        shown = f"A-{approval['seq']} ({approval['status']})"
        yes = any(vote["decision"] == "approved" for vote in approval["votes"] or [])
        if approval["status"] in ("granted", "closed", "voided") and not yes:
            yield f"{shown} has nobody who granted it"
        if approval["status"] == "granted" and not facts.granted_may_wait:
            yield f"{shown} was never carried out"
        if approval["status"] in ("rejected", "expired", "superseded", "closed", "voided") and not approval["note"]:
            yield f"{shown} does not say why it ended"


def an_approval_is_carried_out_once(facts: Facts) -> Iterator[str]:
    called: dict[int, list[Row]] = {}
    for record in facts.tables["outbox"]:
        if record["approval_seq"] is not None and record["started_at"] is not None:
            called.setdefault(record["approval_seq"], []).append(record)
    for approval in facts.tables["approvals"]:
        records = called.get(approval["seq"], [])
        shown = f"A-{approval['seq']} ({approval['status']})"
        if len(records) > 1:
            yield f"{shown} was carried out {len(records)} times"
        if approval["status"] == "closed" and not records:
            yield f"{shown} is closed and was never carried out"
        for record in records:
            if record["request_digest"] != approval["digest"]:
                yield f"{_shown(record)} is not what was granted with {shown}"
            if record["seq"] in facts.persons and record["state"] in OPEN:
                continue
            if approval["status"] != "closed" or approval["ended_at"] != record["finished_at"]:
                yield f"{shown} was not closed in the transaction that ended {_shown(record)}"


def granted_work_is_done_once(facts: Facts) -> Iterator[str]:
    for item in facts.tables["work_items"]:
        shown = f"W-{item['seq']} ({item['kind']}, {item['state']})"
        waits = (item["kind"] == "deploy_watch" and facts.watch_window_s is None) or facts.granted_may_wait
        if item["state"] == "dead" or (item["state"] != "done" and not waits):
            yield f"{shown} is not done: {item['error']}"
    keys = Counter(item["key"] for item in facts.tables["work_items"])
    again = len(remedies.lost_rollbacks(facts.tables["outbox"]))  # each puts the step of its watch back
    for key, count in keys.items():
        if count > (1 + again if key.startswith("deploy_watch:") else 1):
            yield f"{count} work items are {key}"


def each_restart_is_watched_once(facts: Facts) -> Iterator[str]:
    steps = [item["payload"] for item in facts.tables["work_items"] if item["kind"] == "deploy_watch"]
    watches = Counter(action for action, _ in {(step["action"], step["watch"]) for step in steps})
    for record in facts.tables["outbox"]:
        grew = record["request"]["source"] == "autoscaler" and record["request"].get("direction") == "up"
        watched = record["kind"] in ("start_service", "restart_service", *ROLLOUTS) or grew
        failures = (record["outcome"] or {}).get("evidence", {}).get("failures") or ()
        not_up = record["kind"] in ROLLOUTS and record["state"] == "failed" and "not_up" in failures
        cut_off = (
            record["kind"] == "deploy_service"
            and record["state"] == "failed"
            and (record["outcome"] or {}).get("code") == "partial"
        )
        expected = int((watched and record["state"] == "succeeded") or not_up or cut_off)
        if watches[record["seq"]] != expected:
            yield f"{_shown(record)} has {watches[record['seq']]} watches, {expected} expected"


def each_rollout_is_in_the_history_of_versions(facts: Facts) -> Iterator[str]:
    """Once, as complete or not; and what did nothing is not in it."""
    rows = {row["action_seq"]: row for row in facts.tables["ran_versions"]}
    for record in facts.tables["outbox"]:
        if record["kind"] not in ROLLOUTS:
            continue
        row, done = rows.get(record["seq"]), record["state"] == "succeeded"
        partly = record["state"] == "failed" and record["outcome"]["code"] == "partial"
        if (row is not None) != (done or partly):
            yield f"{_shown(record)} is {'' if row else 'not '}in the history of versions"
        elif row and (row["version"], bool(row["complete"])) != (record["request"]["params"]["version"], done):
            yield f"{_shown(record)} is in the history as {row['version']}, complete {row['complete']}"


def no_budget_slot_leaks(facts: Facts) -> Iterator[str]:
    """A slot that is used belongs to an action that was called; the product counts just those."""
    records = {row["decision_seq"] for row in facts.tables["outbox"]}
    for decision in facts.tables["decisions"]:
        if decision["verdict"] in ALLOWED and decision["kind"] in ACTUATED and decision["seq"] not in records:
            yield f"decision D-{decision['seq']} holds a slot and led to nothing"
    called: Counter[str] = Counter()
    for record in facts.tables["outbox"]:
        if record["started_at"] is not None and not record["dry_run"]:
            called[f"{record['kind']} {record['target']}"] += 1
    for name, uses in facts.uses.items():
        if uses != called[name]:
            yield f"{name}: {uses} slots are used, {called[name]} actions were called"
    for name, count in called.items():
        if count > facts.rate_max:
            yield f"{name} was called {count} times, {facts.rate_max} are allowed"


def every_notice_reaches_people(facts: Facts) -> Iterator[str]:
    """At least once each: a crash may tell one twice, never not at all."""
    told = Counter(facts.told)
    written = Counter(row["summary"] for row in facts.tables["journal"] if row["topic"] == "notice")
    for summary, count in written.items():
        if told[summary] < count:
            yield f"{summary!r} was written {count} times and told {told[summary]} times"


def one_action_of_a_target_at_a_time(facts: Facts) -> Iterator[str]:
    targets = {record["target"] for record in facts.tables["outbox"]}
    for target in targets:
        records = [record for record in facts.tables["outbox"] if record["target"] == target]
        for before, after in pairwise(records):
            if before["finished_at"] is None or before["finished_at"] > after["prepared_at"]:
                yield f"{_shown(after)} began while {_shown(before)} was open"


def tokens_only_grow(facts: Facts) -> Iterator[str]:
    fenced = [row for row in facts.tables["outbox"] if row["fence"] and row["started_at"]]
    fenced.sort(key=lambda row: int(row["started_at"]))
    for before, after in pairwise(sorted(fenced, key=lambda row: str(row["fence"]["cadence"]))):
        same = before["fence"]["cadence"] == after["fence"]["cadence"]
        if same and before["fence"]["token"] > after["fence"]["token"]:
            yield f"{_shown(after)} was fenced under an older token than {_shown(before)}"


def nothing_was_fenced_in_a_freeze(facts: Facts) -> Iterator[str]:
    for freeze in facts.tables["freezes"]:
        for record in facts.tables["outbox"]:
            began, end = record["started_at"], freeze["lifted_at"]
            if began is not None and freeze["at"] < began and (end is None or began < end):
                yield f"{_shown(record)} was fenced in a freeze"


def time_never_goes_back(facts: Facts) -> Iterator[str]:
    for name in ("decisions", "executions", "journal", "reports"):
        for before, after in pairwise(facts.tables[name]):
            if before["at"] > after["at"]:
                yield f"{name}: row {after['seq']} is dated before row {before['seq']}"
    for record in facts.tables["outbox"]:
        times = [record[name] for name in ("prepared_at", "started_at", "finished_at") if record[name] is not None]
        if times != sorted(times):
            yield f"{_shown(record)} ended before it began"
    for approval in facts.tables["approvals"]:
        if approval["ended_at"] is not None and approval["ended_at"] < approval["created_at"]:
            yield f"A-{approval['seq']} ended before it was filed"


RULES: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        nothing_is_left_open,
        every_call_rests_on_a_decision,
        a_service_started_only_what_was_fenced,
        nothing_was_done_twice,
        nothing_was_lost_or_made_up,
        the_fleet_is_as_declared,
        nobody_died_without_an_action,
        every_end_is_in_the_ledger,
        what_was_settled_rests_on_evidence,
        no_approval_is_lost,
        an_approval_is_carried_out_once,
        granted_work_is_done_once,
        each_restart_is_watched_once,
        each_rollout_is_in_the_history_of_versions,
        no_budget_slot_leaks,
        every_notice_reaches_people,
        one_action_of_a_target_at_a_time,
        tokens_only_grow,
        nothing_was_fenced_in_a_freeze,
        time_never_goes_back,
        *remedies.RULES,
    )
}
