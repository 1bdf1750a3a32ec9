"""The auditor: a small, obvious model of what must be true, which judges a whole history after the fact.

It shares no code with the product.  It reads what the database wrote down about itself, the substrate's truth and what
people and files said, merges them by step, and walks through once.  Whatever it holds to be a rule is written here in
its own words and numbers; where it and the product disagree, one of them is wrong, and that is what it is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.auditor_of_events import EventsAuditor
from tests.simulation.auditor_of_intents import IntentsAuditor
from tests.simulation.auditor_of_outside import OutsideAuditor
from tests.simulation.auditor_of_pauses import PausesAuditor
from tests.simulation.auditor_of_storms import StormsAuditor
from tests.simulation.auditor_of_the_seals import SealsAuditor
from tests.simulation.auditor_of_versions import VersionsAuditor
from tests.simulation.auditor_of_votes import VotesAuditor
from tests.simulation.auditor_of_watches import WatchesAuditor
from tests.simulation.auditor_of_wishes import WishesAuditor

__all__ = ["Auditor", "Event", "Setup"]

SECOND = 1_000_000
FOREVER = 1 << 62
OPEN = ("prepared", "running", "recovery_pending")
CALLED = ("running", "recovery_pending")
WAITING = ("pending", "granted")
ACTING = ("restart_service", "scale_service", "stop_service", "start_service")
PROPOSALS = ("investigate_resource_pressure", "failure_gap")  # a yes says that a person takes it up
MOVES = {
    "record": {
        "prepared": {"running", "abandoned"},
        "running": {"succeeded", "failed", "simulated", "recovery_pending"},
        "recovery_pending": {"succeeded", "failed"},
    },
    "approval": {
        "pending": {"granted", "rejected", "expired", "superseded"},
        "granted": {"closed", "voided", "rejected", "expired", "superseded"},
    },
    "work": {"ready": {"leased"}, "leased": {"ready", "leased", "done", "dead"}},
}
FOLLOW_LOAD = ("autoscaler", "deploy_watch")  # whose changes of a count are intents
VERSIONS = ("deploy_service", "rollback_service")
SAYS = {"succeeded": "executed", "failed": "failed", "simulated": "simulated", "recovery_pending": "recovery_pending"}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.  `kind`: a table's name for a change of it; else truth, look, policy, freeze_file,
    crash, yes, or what a sender of alerts or another system said, heard and did."""

    step: int
    kind: str
    data: Mapping[str, Any]
    what: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """Limits in seconds (from commit 1 to the call; of a call from its start to its deadline), and who serves whom."""

    start_window_s: float
    call_s: float
    substrate_of: Mapping[str, str]
    pause_s: float = 40.0  # the first pause after a row of failures
    watch_s: float = 30.0  # from the end of an action to the deadline of its watch
    event_age_s: int = 900  # how old an event may be and still lead to an action
    storm_least: int = 3  # how many sick services open the breaker, at least
    outside_start_s: float = 300.0  # how long others may claim what they were allowed
    approval_s: float | None = None  # how long an approval waits for people
    seals: bool = False  # the ledger is sealed while all this happens


@dataclass(slots=True)
class Deed:
    """The truth about one key: what the substrate was asked and what it did."""

    calls: int = 0
    in_flight_by: str = ""  # the plane that waits for the answer
    called_at: float = 0.0  # seconds, monotonic
    seen_step: int = 0  # of the look that its evidence is from: what others did since may look like its effect
    touched: int = 0
    landed: int = 0


@dataclass(slots=True)
class Rules:
    default: str = "forbidden"
    targets: Mapping[str, str] = field(default_factory=dict)
    rate: tuple[int, int] = (0, 1)
    blast: tuple[int, int] = (0, 1)


class Auditor:
    """Walks through one history.  `findings` is empty if every promise held."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.findings: list[str] = []
        self.decisions: dict[int, dict[str, Any]] = {}
        self.records: dict[int, dict[str, Any]] = {}
        self.approvals: dict[int, dict[str, Any]] = {}
        self.executions: dict[tuple[int, str], dict[str, Any]] = {}
        self.work: dict[int, dict[str, Any]] = {}
        self.leases: dict[tuple[str, str], dict[str, Any]] = {}
        self.freezes: dict[int, dict[str, Any]] = {}
        self.overrides: dict[str, dict[str, Any]] = {}
        self.rules = Rules()
        self.freeze_file = ""
        self.deeds: dict[str, Deed] = {}
        self.yes: dict[int, set[tuple[str, str]]] = {}  # approval → (person, the digest that they read)
        self.newest_time = 0
        self.looked_at: dict[str, int] = {}  # substrate → the store's time when its truth was last read
        self.looks: dict[str, list[tuple[int, int]]] = {}  # substrate → (that time, step) of every look
        self.started_mono: dict[int, float] = {}
        self.called_order: dict[str, list[str]] = {}  # target → keys in the order of their calls
        self.wishes = WishesAuditor(self.find)
        self.pauses = PausesAuditor(self.find, setup.pause_s)
        self.watches = WatchesAuditor(self.find, setup.watch_s)
        self.intents = IntentsAuditor(self.find, self.watches.judge_rollback)
        self.outside = OutsideAuditor(self.find, setup.outside_start_s)
        self.storms = StormsAuditor(self.find, setup.storm_least, frozenset(setup.substrate_of))
        self.events = EventsAuditor(self.find, setup.event_age_s)
        self.votes = VotesAuditor(self.find, setup.approval_s)
        self.seals = SealsAuditor(self.find, self.leases)
        self._beside: dict[str, list[Callable[[Event], None]]] = {}  # what else judges events of a kind
        self.versions = VersionsAuditor(self.find, self.watches.rows, self.records, self.decisions)
        sealed = [self.seals.handlers] if setup.seals else []
        for handlers in (self.votes.handlers, self.versions.handlers, *sealed):
            for kind, judge in handlers.items():
                self._beside.setdefault(kind, []).append(judge)
        self._decided: list[dict[str, Any]] = []
        self._fresh: list[tuple[int, Event, dict[str, Any]]] = []
        self._step = 0

    def find(self, sentence: str) -> None:
        self.findings.append(f"step {self._step}: {sentence}")

    def walk(self, events: Iterable[Event]) -> list[str]:
        """Judge every event in order, then how it all ended."""
        for event in events:
            self._step = event.step
            beside = self._beside.get(event.kind, ())
            if (judge := getattr(self, f"_on_{event.kind}", None)) is not None:
                judge(event)
            elif not beside:
                raise LookupError(f"nobody judges {event.kind}")
            for each in beside:
                each(event)
        return self.findings

    # ------------------------------------------------------------------------------------------- what people said
    def _on_policy(self, event: Event) -> None:
        self.rules = Rules(**event.data)

    def _on_freeze_file(self, event: Event) -> None:
        self.freeze_file = event.data["path"]

    def _on_yes(self, event: Event) -> None:
        self.yes.setdefault(event.data["approval"], set()).add((event.data["by"], event.data["digest"]))

    def _on_other(self, event: Event) -> None:
        self.wishes.on_other(event.data["target"], event.step)

    def _on_revived(self, event: Event) -> None:
        if not event.data["key"]:  # one that somebody else started: what began it anew cannot be told from us
            self.wishes.on_revived(event.data["target"], event.step)

    def _on_foreign_changes(self, event: Event) -> None:
        self.wishes.on_change(event.what, dict(event.data))

    def _on_service_overrides(self, event: Event) -> None:
        self.wishes.on_override(dict(event.data))
        self.intents.on_override(dict(event.data))

    def _on_block(self, event: Event) -> None:
        self.intents.on_block(event.data)

    def _on_signals(self, event: Event) -> None:
        self.intents.on_signals(event.data)

    def _on_intents(self, event: Event) -> None:
        self.intents.on_intent(event.what, dict(event.data))

    def _on_deploy_watches(self, event: Event) -> None:
        self.watches.on_watch(event.what, dict(event.data))

    def _on_outside(self, event: Event) -> None:
        self.outside.on_event(event.data, self.records)

    def _on_whole_pass(self, event: Event) -> None:
        self.storms.on_pass(event.data)

    def _on_storms(self, event: Event) -> None:
        self.storms.on_change(event.data)

    def _on_notices(self, event: Event) -> None:
        self.storms.on_notice(event.data)
        self.events.on_notice(event.data)

    def _on_alerts_sent(self, event: Event) -> None:
        self.events.on_sent(event.data)

    def _on_alerts_kept(self, event: Event) -> None:
        self.events.on_kept(event.data)

    def _on_events(self, event: Event) -> None:
        self.events.on_event(event.what, dict(event.data))

    def _on_look(self, event: Event) -> None:
        self.looked_at[event.data["substrate"]] = event.data["at"]
        self.looks.setdefault(event.data["substrate"], []).append((event.data["at"], event.step))

    def _on_crash(self, event: Event) -> None:
        for deed in self.deeds.values():
            if deed.in_flight_by == event.data["plane"]:
                deed.in_flight_by = ""

    # ------------------------------------------------------------------------------------------- the database
    def _on_decisions(self, event: Event) -> None:
        row = dict(event.data)
        old = self.decisions.get(row["seq"])
        self.decisions[row["seq"]] = row
        if old is not None:
            kept = {k: v for k, v in old.items() if k not in ("approval_seq", "action_seq")}
            if kept != {k: v for k, v in row.items() if k not in ("approval_seq", "action_seq")}:
                self.find(f"D-{row['seq']} was rewritten")
            return
        self._time(row["at"], f"D-{row['seq']}")
        self._digest(row["request"], row["request_digest"], f"D-{row['seq']}")
        self.pauses.on_decision(row)
        self.storms.on_decision(row)
        self.events.on_decision(row)
        if row["source"] in FOLLOW_LOAD and row["kind"] not in VERSIONS:
            self._decided.append(row)

    def _on_approvals(self, event: Event) -> None:
        row = dict(event.data)
        old, name = self.approvals.get(row["seq"]), f"A-{row['seq']}"
        self.approvals[row["seq"]] = row
        if old is None:
            if row["status"] != "pending":
                self.find(f"{name} begins as {row['status']}")
            self._digest(row["request"], row["digest"], name)
            twins = [
                one["seq"]
                for one in self.approvals.values()
                if one["status"] == "pending" and (one["kind"], one["target"]) == (row["kind"], row["target"])
            ]
            if len(twins) > 1:
                self.find(f"two pending approvals of one kind and target: {twins}")
            return
        if old["status"] != row["status"]:
            self._move("approval", name, old["status"], row["status"])
            self._end_of_approval(name, row)
        if (old["request"], old["digest"]) != (row["request"], row["digest"]):
            self.find(f"{name} was rewritten")

    def _end_of_approval(self, name: str, row: dict[str, Any]) -> None:
        to = row["status"]
        if to == "granted":
            people = {vote["by"] for vote in json.loads(row["votes"]) if vote["decision"] == "approved"}
            asker = json.loads(row["request"])["requested_by"]
            if not people - {asker}:
                self.find(f"{name} was granted without another person's yes")
            if not any(digest == row["digest"] for _, digest in self.yes.get(row["seq"], ())):
                self.find(f"{name} was granted, and nobody said yes to that very request")
        begun = [one for one in self.records.values() if one["approval_seq"] == row["seq"] and one["state"] in CALLED]
        if to in ("rejected", "expired", "superseded", "voided") and begun:
            self.find(f"{name} became {to} while X-{begun[0]['seq']}, which rests on it, is {begun[0]['state']}")

    def _on_outbox(self, event: Event) -> None:
        row = dict(event.data)
        old, name = self.records.get(row["seq"]), f"X-{row['seq']}"
        self.records[row["seq"]] = row
        self._fresh.append((row["seq"], event, old or {}))
        if event.what == "delete":
            self.find(f"{name} was deleted")
        if old is None:
            self._new_record(name, row)
        elif old["state"] != row["state"]:
            self._move("record", name, old["state"], row["state"])
        self._digest(row["request"], row["request_digest"], name)
        if self.outside.is_outside(row):
            self.outside.on_record(row, old, self.decisions, self.approvals)

    def _new_record(self, name: str, row: dict[str, Any]) -> None:
        if row["state"] != "prepared":
            self.find(f"{name} begins as {row['state']}")
        others = [
            f"X-{one['seq']} ({one['state']})"
            for one in self.records.values()
            if one["target"] == row["target"] and one["state"] in OPEN and one["seq"] != row["seq"]
        ]
        if others:
            self.find(f"{name} is a second open record of {row['target']}, beside {', '.join(others)}")
        decision = self.decisions.get(row["decision_seq"])
        if decision is None or not self._allows(decision, row):
            self.find(f"{name} was prepared without a decision that allows it")
            return
        if decision["request_digest"] != row["request_digest"]:
            self.find(f"{name} is another request than D-{decision['seq']} decided")
        for one in self.records.values():
            if one["seq"] != row["seq"] and one["state"] != "abandoned" and one["decision_seq"] == decision["seq"]:
                self.find(f"D-{decision['seq']} authorises both X-{one['seq']} and {name}")

    def _allows(self, decision: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        """An allowing verdict; for what follows load, one that asked a person, with that person's yes, is the same."""
        if decision["verdict"] in ("allow", "allow_notify"):
            return True
        asked = self.approvals.get(row["approval_seq"] or 0)
        granted = asked is not None and (asked["decision_seq"], asked["status"]) == (decision["seq"], "granted")
        intents = decision["source"] in FOLLOW_LOAD and decision["kind"] not in VERSIONS
        return granted and decision["verdict"] == "queue_approval" and intents

    def _on_executions(self, event: Event) -> None:
        row = dict(event.data)
        self.executions[row["action_seq"], row["state"]] = row
        if event.what != "insert":
            self.find(f"the execution of X-{row['action_seq']} was rewritten")
        self.intents.on_execution(row)
        self.watches.on_execution(row)
        self.pauses.on_execution(row, self.records.get(row["action_seq"], {}).get("request_digest", ""))
        self._time(row["at"], f"the execution of X-{row['action_seq']}")

    def _on_work_items(self, event: Event) -> None:
        row = dict(event.data)
        old = self.work.get(row["seq"])
        self.work[row["seq"]] = row
        if old is None:
            self.events.on_work(row)
            return
        if old["state"] != row["state"]:
            self._move("work", f"W-{row['seq']}", old["state"], row["state"])
        if row["token"] < old["token"]:
            self.find(f"the token of W-{row['seq']} went back")

    def _on_leases(self, event: Event) -> None:
        row = dict(event.data)
        key = (row["cadence"], row["shard"])
        old = self.leases.get(key)
        if old is not None and row["token"] < old["token"]:
            self.find(f"the token of the lease {key} went back")
        if old is not None and row["holder"] and row["holder"] != old["holder"] and row["token"] <= old["token"]:
            self.find(f"the lease {key} changed hands without a new token")
        self.leases[key] = row

    def _on_freezes(self, event: Event) -> None:
        self.freezes[event.data["seq"]] = dict(event.data)

    def _on_policy_overrides(self, event: Event) -> None:
        if event.what == "delete":
            self.overrides.pop(event.data["id"], None)
        else:
            self.overrides[event.data["id"]] = dict(event.data)

    def _on_commit(self, event: Event) -> None:
        """A transaction is over: judge what it changed, as a whole."""
        fresh, self._fresh = self._fresh, []
        decided, self._decided = self._decided, []
        for row in decided:
            self.intents.decided(row)
        self.watches.on_commit(self.records, self.looks)
        self.storms.on_commit(event.data["name"], event.step, self.records)
        self.events.on_commit(self.records, self.approvals)
        self.intents.on_commit(event.data, self.decisions, self.records, self.approvals, self.leases, self.looks)
        for seq, one, old in fresh:
            row, before = self.records[seq], old.get("state", "")
            if self.outside.is_outside(row):
                self._judge_outside(dict(one.data), before, event.data["name"])
            elif not before:
                self._judge_admission(row)
            elif before == "prepared" and row["state"] == "running":
                self._judge_commit_1(row, event)
                request = WishesAuditor.request_of(row)
                self.wishes.on_commit_1(row, request)
                self.intents.on_commit_1(row, request)
                self.storms.on_commit_1(row, request)
            elif before in CALLED and before != row["state"]:
                self._judge_outcome(row, before, event)
        for row in self.approvals.values():
            linked = [one for one in self.records.values() if one["approval_seq"] == row["seq"]]
            over = [one for one in linked if one["state"] in SAYS and one["state"] != "recovery_pending"]
            if over and row["status"] in WAITING:
                self.find(f"A-{row['seq']} is {row['status']} though X-{over[0]['seq']} is {over[0]['state']}")
            if row["status"] == "closed" and not over and row["kind"] not in PROPOSALS:
                self.find(f"A-{row['seq']} is closed though nothing was carried out")

    # ------------------------------------------------------------------------------------------- budgets
    def uses(self, kind: str, *, dry_run: int, since: int, until: int = FOREVER, but: int = 0) -> list[tuple[str, int]]:
        """(target, time) of what counts after `since` up to `until`: allowed decisions by their own time, grants by
        commit 1."""
        gone = {one["decision_seq"] for one in self.records.values() if one["state"] == "abandoned"}
        alive = {one["decision_seq"] for one in self.records.values() if one["state"] != "abandoned"}
        counted = [
            (one["target"], one["at"])
            for one in self.decisions.values()
            if one["kind"] == kind
            and one["dry_run"] == dry_run
            and one["verdict"] in ("allow", "allow_notify")
            and one["approval_seq"] is None
            and (one["seq"] not in gone or one["seq"] in alive)
            and one["seq"] != but
        ]
        counted += [
            (one["target"], one["started_at"])
            for one in self.records.values()
            if one["kind"] == kind
            and one["dry_run"] == dry_run
            and one["approval_seq"] is not None
            and one["started_at"] is not None
            and one["decision_seq"] != but
        ]
        return [(target, at) for target, at in counted if since < at <= until]

    def _judge_budget(self, row: dict[str, Any], now: int, *, waives: Iterable[str], when: str) -> None:
        kind, target, name = row["kind"], row["target"], f"X-{row['seq']}"
        most, window = self.rules.rate
        rated = self.uses(kind, dry_run=row["dry_run"], since=now - window * SECOND, until=now, but=row["decision_seq"])
        used = sum(1 for of, _ in rated if of == target)
        if used >= most:
            self.find(f"{name}: {used} uses of {kind} {target} within {window} s {when}, {most} are allowed")
        widest, window = self.rules.blast
        used_by = self.uses(kind, dry_run=row["dry_run"], since=now - window * SECOND, until=now)
        reached = {target for target, _ in used_by}
        if len(reached | {target}) > widest and "blast" not in waives:
            self.find(f"{name}: {kind} reaches {sorted(reached | {target})} {when}, {widest} targets are allowed")

    def _judge_admission(self, row: dict[str, Any]) -> None:
        decision = self.decisions.get(row["decision_seq"])
        if decision is not None and row["approval_seq"] is None:
            self._judge_budget(row, decision["at"], waives=(), when="when it was decided")

    # ------------------------------------------------------------------------------------------- commit 1
    def _tier(self, kind: str, target: str) -> str:
        for one in self.overrides.values():
            rule = json.loads(one["rule"])
            if one["active"] and rule["target"] == target and rule["kind"] in ("*", kind):
                return str(rule["tier"])
        return self.rules.targets.get(target, self.rules.default)

    def _judge_commit_1(self, row: dict[str, Any], commit: Event) -> None:
        name, now = f"X-{row['seq']}", row["started_at"]
        self.started_mono[row["seq"]] = commit.data["mono"]
        self._time(now, f"commit 1 of {name}")
        self._judge_authority(name, row, now)
        if now > row["expires_at"]:
            self.find(f"{name} was begun after its authorisation had lapsed")
        lease = self.leases.get(self._shard(row))
        fence = json.loads(row["fence"])
        if lease is None or (lease["token"], lease["holder"]) != (fence["token"], fence["holder"]):
            self.find(f"{name}: a fenced-out holder committed (commit 1)")
        self._judge_evidence(name, row)
        self._judge_horizons(name, row)

    def _judge_horizons(self, name: str, row: dict[str, Any]) -> None:
        now = row["started_at"]
        for other in self.records.values():
            if other["target"] != row["target"] or other["seq"] == row["seq"] or other["started_at"] is None:
                continue
            outcome = json.loads(other["outcome"] or "{}")
            heard = bool(outcome) and not outcome.get("unknown_outcome") and not other["settled_by"]
            if now <= other["horizon_at"] and not (other["final_if_acknowledged"] and heard):
                self.find(f"{name} was begun although the effect of X-{other['seq']} could still land")

    def _judge_authority(self, name: str, row: dict[str, Any], now: int, *, ended: bool = False) -> None:
        """`ended`: what was begun ended in the same transaction, and its grant with it."""
        standing = [
            one
            for one in self.freezes.values()
            if one["lifted_at"] is None and (one["until"] is None or one["until"] > now)
        ]
        if standing:
            self.find(f"{name} passed commit 1 under a freeze")
        tier = self._tier(row["kind"], row["target"])
        approval = None if row["approval_seq"] is None else self.approvals.get(row["approval_seq"])
        waives = [] if approval is None else json.loads(approval["waives"])
        if tier == "forbidden":
            self.find(f"{name} passed commit 1 though {row['kind']} {row['target']} is forbidden")
        if tier == "approval_required" and "tier" not in waives:
            self.find(f"{name} passed commit 1 though a person has to be asked")
        if row["approval_seq"] is not None and (
            approval is None or approval["status"] != ("closed" if ended else "granted")
        ):
            self.find(f"{name} passed commit 1 on an approval that is {approval['status'] if approval else 'missing'}")
        if approval is not None and approval["digest"] != row["request_digest"]:
            self.find(f"{name} is another request than A-{approval['seq']} was granted for")
        self._judge_budget(row, now, waives=waives, when="at commit 1")

    def _judge_evidence(self, name: str, row: dict[str, Any]) -> None:
        """Nothing is done on evidence from before the target's last action, or to what is well."""
        request = json.loads(row["request"])
        evidence = request.get("evidence", {})
        seen, facts = evidence.get("observed_at"), evidence.get("facts", {})
        ended = [
            one["at"]
            for one in self.executions.values()
            if one["target"] == row["target"] and one["state"] != "recovery_pending"
        ]
        if seen is None:
            self.find(f"{name} was begun without a look")
            return
        if ended and seen < max(ended):
            self.find(f"{name} was begun on evidence older than the target's last action")
        self._judge_date(name, row, seen)
        heals = request["source"] in ("reconciler", "playbook") and row["kind"] == "restart_service"
        if heals and facts.get("status") == "up":
            self.find(f"{name} restarts what its own evidence calls up")

    def _judge_date(self, name: str, row: dict[str, Any], seen: int) -> None:
        """An observation is no younger than the moment at which the truth was read."""
        if seen > self.looked_at.get(self.setup.substrate_of[row["target"]], 0):
            self.find(f"{name} rests on an observation that is dated later than any look")

    # ------------------------------------------------------------------------------------------- done by others
    def _judge_outside(self, row: dict[str, Any], before: str, name: str) -> None:
        """A claim is judged like commit 1 as far as policy goes; what was done before it was asked is told as it is."""
        if before == "prepared" and row["state"] == "running" and name != "report":
            self._time(row["started_at"], f"the claim of X-{row['seq']}")
            self._judge_authority(f"X-{row['seq']}", row, row["started_at"], ended=name == "gate")
            self._judge_horizons(f"X-{row['seq']}", row)
        elif before in CALLED and before != row["state"]:
            self.outside.on_outcome(row, before, self.executions)

    # ------------------------------------------------------------------------------------------- outcomes
    def _judge_outcome(self, row: dict[str, Any], before: str, commit: Event) -> None:
        name, to = f"X-{row['seq']}", row["state"]
        deed = self.deeds.get(row["key"], Deed())
        if commit.data["name"] == "commit_2":
            lease, fence = self.leases.get(self._shard(row)), json.loads(row["fence"])
            if lease is None or (lease["token"], lease["holder"]) != (fence["token"], fence["holder"]):
                self.find(f"{name}: a fenced-out holder committed (commit 2)")
        elif to == "recovery_pending" and deed.in_flight_by == commit.data["plane"]:
            self.find(f"{name} was marked although a thread of the same plane still carries it out")
        execution = self.executions.get((row["seq"], SAYS[to]))
        if to != "recovery_pending":
            self._time(row["finished_at"], f"the end of {name}")
            if execution is not None and execution["at"] < row["finished_at"]:
                self.find(f"the execution of {name} is dated before its outcome was known")
        if (
            before == "recovery_pending"
            and to == "failed"
            and not row["dry_run"]
            and row["finished_at"] <= row["horizon_at"]
        ):
            self.find(f"{name} was settled as failed while its effect could still land")
        if row["settled_by"] == "evidence" and not row["dry_run"]:
            self._judge_date(name, row, json.loads(row["outcome"])["evidence"]["observed_at"])
        self._judge_truth(name, row, deed)

    def _judge_truth(self, name: str, row: dict[str, Any], deed: Deed) -> None:
        state, code = row["state"], json.loads(row["outcome"] or "{}").get("code", "")
        if row["settled_by"] == "evidence" and self.wishes.touched_since(row["target"], deed.seen_step):
            return  # what somebody else did meanwhile cannot always be told from what we did
        if state == "succeeded" and not deed.landed:
            self.find(f"the ledger claims an effect that never happened ({name})")
        if state == "failed" and deed.landed:
            self.find(f"the ledger denies an effect that happened ({name})")
        if state == "failed" and deed.touched and code != "partial" and row["settled_by"] in ("", "evidence"):
            self.find(f"{name} was carried out in part, and the ledger says {code!r}")
        if code == "not_called" and deed.touched:
            self.find(f"{name} is said not to have been called, and something was changed under its key")
        if state == "simulated" and deed.calls:
            self.find(f"{name} is said to be simulated, and its substrate was called")

    # ------------------------------------------------------------------------------------------- the truth
    def _on_truth(self, event: Event) -> None:
        key, what, target = event.data["key"], event.data["what"], event.data["target"]
        deed = self.deeds.setdefault(key, Deed())
        if what == "called":
            self._judge_call(event, deed)
            deed.calls += 1
            deed.in_flight_by = event.data["plane"]
            deed.called_at = event.data["mono"]
            deed.seen_step = self._seen_step(key, target, event.step)
            self.called_order.setdefault(target, []).append(key)
        elif what == "answered":
            deed.in_flight_by = ""
        elif what in ("touched", "landed"):
            if what == "landed":
                deed.landed += 1
            else:
                deed.touched += 1
            if self.called_order[target][-1] != key:
                self.find(f"a late effect of {key} raced a newer action of {target}")
            record = self._record(key)
            code = json.loads((record or {}).get("outcome") or "{}").get("code", "")
            if record is not None and record["state"] == "failed" and (what == "landed" or code != "partial"):
                self.find(f"an effect of X-{record['seq']} landed after it was settled as failed")

    def _seen_step(self, key: str, target: str, called: int) -> int:
        row = self._record(key) or {}
        seen = json.loads(row.get("request") or "{}").get("evidence", {}).get("observed_at", 0)
        looks = self.looks.get(self.setup.substrate_of[target], [])
        return next((step for at, step in looks if at >= seen), called)  # a look is dated at its beginning

    def _judge_call(self, event: Event, deed: Deed) -> None:
        key, target = event.data["key"], event.data["target"]
        record = self._record(key)
        if record is None or record["state"] not in CALLED:
            state = "no record" if record is None else record["state"]
            self.find(f"a side effect without a committed fence: {key} was called with {state}")
        if deed.calls:
            self.find(f"{key} was called twice")
        if self.freeze_file:
            self.find(f"{key} was called while the file {self.freeze_file} exists")
        for other, one in self.deeds.items():
            in_time = event.data["mono"] - one.called_at < self.setup.call_s  # past it a caller may still be asleep
            if one.in_flight_by and in_time and other != key and other in self.called_order.get(target, ()):
                self.find(f"two calls of {target} are in flight: {other} and {key}")
        if record is not None and record["seq"] in self.started_mono:
            gap = event.data["mono"] - self.started_mono[record["seq"]]
            if gap >= self.setup.start_window_s:
                self.find(f"{key} was called {gap:.3f} s after its fence, {self.setup.start_window_s} s are allowed")
        if record is not None and record["dry_run"]:
            self.find(f"a dry run called its substrate: {key}")

    def _record(self, key: str) -> dict[str, Any] | None:
        found = [one for one in self.records.values() if one["key"] == key]
        return found[-1] if found else None

    # ------------------------------------------------------------------------------------------- how it ended
    def finish(self, *, uses: Mapping[tuple[str, str, int], int], since: int) -> list[str]:
        """Everything has calmed down: nothing may be left open, lost or leaked.

        `uses`: what the product counts as budget uses after `since`, by kind, target and dry run.
        """
        for row in self.records.values():
            self._finish_record(f"X-{row['seq']}", row)
        for row in self.approvals.values():
            if row["status"] in WAITING:
                self.find(f"at the end A-{row['seq']} is still {row['status']}")
        for row in self.work.values():
            if row["state"] == "leased" or (row["state"] == "ready" and row["kind"] == "approved_action"):
                self.find(f"at the end W-{row['seq']} ({row['kind']}) is still {row['state']}")
        for row in self.decisions.values():
            allowed = row["verdict"] in ("allow", "allow_notify") and row["kind"] in (*ACTING, *VERSIONS)
            if allowed and row["action_seq"] is None and not self.intents.unprepared(row["seq"]):
                self.find(f"D-{row['seq']} allowed something that was never prepared: a leaked budget slot")
            if row["verdict"] == "queue_approval" and row["approval_seq"] is None:
                self.find(f"D-{row['seq']} asked for a person, and no approval was filed")
        self.intents.finish()
        self.watches.finish(self.newest_time)
        self.versions.finish()
        self.events.finish(self.work.values(), self.records.values())
        for (kind, target, dry_run), count in uses.items():
            mine = sum(1 for of, _ in self.uses(kind, dry_run=dry_run, since=since) if of == target)
            if mine != count:
                self.find(f"the product counts {count} uses of {kind} {target}, there are {mine}")
        return self.findings

    def _finish_record(self, name: str, row: dict[str, Any]) -> None:
        if row["state"] in OPEN:
            self.find(f"at the end {name} is still {row['state']}")
        elif row["state"] != "abandoned":
            if (row["seq"], SAYS[row["state"]]) not in self.executions:
                self.find(f"{name} has no execution in the ledger")
            if not self.outside.is_outside(row):
                self._judge_truth(name, row, self.deeds.get(row["key"], Deed()))

    # ------------------------------------------------------------------------------------------- small checks
    def _move(self, lifecycle: str, name: str, before: str, after: str) -> None:
        if after not in MOVES[lifecycle].get(before, ()):
            self.find(f"{name} moved from {before} to {after}, which is no move of a {lifecycle}")

    def _time(self, at: int, what: str) -> None:
        if at < self.newest_time:
            self.find(f"time went back in the ledger: {what}")
        self.newest_time = max(self.newest_time, at)

    def _digest(self, request: str, digest: str, name: str) -> None:
        told = json.loads(request)
        body = [told["kind"], told["target"], told.get("identity", {}), told.get("params", {})]
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if digest != "sha256:" + hashlib.sha256(text.encode()).hexdigest():
            self.find(f"the request of {name} is not what its digest names")

    def _shard(self, row: dict[str, Any]) -> tuple[str, str]:
        fence = json.loads(row["fence"])
        return fence["cadence"], fence["shard"]
