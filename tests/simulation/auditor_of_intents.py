"""The auditor's rules on what follows load: one writer, one revision at a time, good samples, bounds and cooldowns.

It keeps its own account of what each plane was offered as signals and of what is declared, and holds every revision,
every fence and every end against it.  As the auditor itself it knows rows and events only, and shares nothing with the
product.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["IntentsAuditor"]

SECOND = 1_000_000
SILENT_S = 600  # what the planes of histories use
MOVES = {
    "proposed": {"intent_accepted", "rejected", "superseded"},
    "intent_accepted": {"superseded", "rejected", "simulated", "executed", "failed", "recovery_pending"},
    "recovery_pending": {"executed", "failed"},
    "executed": {"observed", "failed"},
    "observed": {"verified", "failed"},
}
BEGINS = {
    "scale": {"proposed", "intent_accepted"},
    "rollback": {"proposed", "intent_accepted"},
    "override": {"superseded"},
}
LIVE = ("proposed", "intent_accepted", "recovery_pending")
ENDS = ("verified", "failed", "rejected", "superseded", "simulated")
MADE = ("executed", "observed", "verified", "failed")
AGREE = {  # where an intent may be while its record is …
    "running": ("intent_accepted",),
    "recovery_pending": ("recovery_pending",),
    "succeeded": MADE,
    "failed": ("failed",),
    "simulated": ("simulated",),
}
COUNTS = ("scale_service", "stop_service", "start_service")
Rows = Mapping[int, dict[str, Any]]


class IntentsAuditor:
    """`find` takes a sentence for what is wrong; `judge_rollback` holds one that goes back against the watches."""

    def __init__(self, find: Callable[[str], None], judge_rollback: Callable[..., None]) -> None:
        self._find = find
        self._judge_rollback = judge_rollback
        self._blocks: dict[str, Mapping[str, Any]] = {}
        self.rows: dict[int, dict[str, Any]] = {}
        self._latest: dict[str, int] = {}  # service → its newest revision
        self._fresh: list[tuple[dict[str, Any], str]] = []  # row, and where it was before
        self._offered: dict[str, Mapping[str, Any]] = {}  # plane → its last batch
        self._good: dict[tuple[str, str], list[int]] = {}  # service, signal → times of good samples, as they came
        self._since: dict[tuple[str, str, str], int] = {}  # plane, service, signal → how many of them came before a bad
        self._scaled: dict[str, list[int]] = {}  # service → times of real changes of its count
        self._looks: dict[str, list[int]] = {}  # substrate → times
        self._seen: dict[int, int] = {}  # intent → the look that made it observed
        self._overrides: dict[int, dict[str, Any]] = {}

    # ------------------------------------------------------------------------------------------- what is told
    def on_block(self, data: Mapping[str, Any]) -> None:
        """What a service declares about its count from here on."""
        self._blocks[data["service"]] = data

    def on_signals(self, data: Mapping[str, Any]) -> None:
        """A plane was offered these samples; {} is a source that failed."""
        plane, offered = data["plane"], data["offered"]
        self._offered[plane] = offered
        for service, block in self._blocks.items():
            told = {signal: (measured, good) for signal, _, measured, good in offered.get(service, ())}
            for signal in block["signals"]:
                measured, good = told.get(signal, (0, False))
                times = self._good.setdefault((service, signal), [])
                if good:
                    times.append(measured)
                else:
                    self._since[plane, service, signal] = len(times)

    def on_override(self, row: dict[str, Any]) -> None:
        self._overrides[row["seq"]] = row

    def on_execution(self, row: dict[str, Any]) -> None:
        if row["kind"] == "scale_service" and row["state"] == "executed" and row["ok"] and not row["dry_run"]:
            self._scaled.setdefault(row["target"], []).append(row["at"])

    def on_intent(self, what: str, row: dict[str, Any]) -> None:
        """A row was written; it is judged when its transaction is over."""
        name, old = f"I-{row['seq']}", self.rows.get(row["seq"])
        if what == "delete":
            self._find(f"{name} was deleted")
            return
        if old is None:
            if row["state"] not in BEGINS.get(row["operation"], ()):
                self._find(f"{name} begins as {row['state']}")
            newest = self._latest.get(row["service"], 0)
            if row["revision"] != newest + 1:
                self._find(f"{name} is revision {row['revision']} of {row['service']}, {newest} was the latest")
            self._latest[row["service"]] = max(newest, row["revision"])
        elif old["state"] != row["state"] and row["state"] not in MOVES.get(old["state"], ()):
            self._find(f"{name} moved from {old['state']} to {row['state']}, which is no move of an intent")
        self.rows[row["seq"]] = row
        self._fresh.append((row, "" if old is None else old["state"]))

    # ------------------------------------------------------------------------------------------- a commit
    def on_commit(
        self,
        commit: Mapping[str, Any],
        decisions: Rows,
        records: Rows,
        approvals: Rows,
        leases: Mapping[tuple[str, str], Mapping[str, Any]],
        looks: Mapping[str, list[tuple[int, int]]],
    ) -> None:
        """A transaction is over: what it wrote of intents has to fit together, and to what stands beside it."""
        fresh, self._fresh = self._fresh, []
        for row, before in fresh:
            if not before and row["operation"] in ("scale", "rollback"):
                self._judge_put(row, commit["plane"], decisions, leases)
            if row["state"] != before and row["state"] in ("observed", "verified"):
                self._judge_look(row, before, looks)
        if not self.rows:
            return
        live: dict[str, list[str]] = {}
        for row in self.rows.values():
            if row["state"] in LIVE:
                live.setdefault(row["service"], []).append(f"I-{row['seq']} ({row['state']})")
            self._judge_beside(row, records, approvals)
        for service, names in live.items():
            if len(names) > 1:
                self._find(f"{service} has more than one open intent: {', '.join(names)}")

    def decided(self, row: Mapping[str, Any]) -> None:
        """A decision for what follows load, at the end of its transaction."""
        if row["verdict"] != "deny" and not any(one["decision_seq"] == row["seq"] for one in self.rows.values()):
            self._find(f"D-{row['seq']} was decided for what follows load, and no intent was put with it")

    def _judge_put(
        self, row: dict[str, Any], plane: str, decisions: Rows, leases: Mapping[tuple[str, str], Mapping[str, Any]]
    ) -> None:
        name, service, intent = f"I-{row['seq']}", row["service"], json.loads(row["intent"])
        block = self._blocks.get(service)
        if block is None or block["mode"] != "native":
            self._find(f"{name} was put for {service}, whose count does not follow load here")
            return
        decision = decisions.get(row["decision_seq"])
        allowed = {"intent_accepted": ("allow", "allow_notify"), "proposed": ("queue_approval",)}
        if row["state"] in allowed and (decision is None or decision["verdict"] not in allowed[row["state"]]):
            self._find(f"{name} was put as {row['state']} without the decision that makes it so")
        fence = intent["fence"]
        lease = leases.get((fence["cadence"], fence["shard"]), {})
        if (lease.get("token"), lease.get("holder")) != (fence["token"], fence["holder"]):
            self._find(f"{name} was put by a fenced-out holder")
        observed, desired = intent["observed_replicas"], row["desired"]
        self._judge_bounds(name, service, observed, desired, "when it was put")
        if row["operation"] == "rollback":
            self._judge_rollback(name, row, low=block["low"], high=block["high"])
        elif desired < observed:
            self._judge_samples(name, service, plane, evidence=observed <= block["high"])

    def _judge_bounds(self, name: str, service: str, there: int, desired: int, when: str) -> None:
        """Within its bounds; from outside them a count may come nearer."""
        low, high = self._blocks[service]["low"], self._blocks[service]["high"]
        if (desired > high and desired >= there) or (desired < low and desired <= there):
            self._find(f"{name} asks for {desired} of {service} {when}, {low} to {high} are allowed")

    def _judge_samples(self, name: str, service: str, plane: str, *, evidence: bool) -> None:
        """Fewer only where every signal of the last batch was good, and enough good ones came in a row."""
        block = self._blocks[service]
        told = {signal: good for signal, _, _, good in self._offered.get(plane, {}).get(service, ())}
        for signal in block["signals"]:
            if not told.get(signal, False):
                self._find(f"{name} has fewer of {service} on a tick whose sample of {signal} was bad")
                continue
            times = self._good[service, signal]
            row = len(set(times[self._since.get((plane, service, signal), 0) :]))
            if evidence and row < block["samples"]:
                self._find(f"{name} has fewer of {service} after {row} good samples of {signal}")

    def _judge_look(self, row: dict[str, Any], before: str, looks: Mapping[str, list[tuple[int, int]]]) -> None:
        """Observed by a look after the execution, verified by a later one: both are looks that somebody took."""
        convergence = row["convergence"] = json.loads(row["convergence"])
        taken = {at for times in looks.values() for at, _ in times}
        seen = convergence.get("observed_at") or 0
        if before == "executed":
            done = self._scaled.get(row["service"], [0])[-1]
            if seen <= done:
                self._find(f"I-{row['seq']} counts as observed by a look from before it was executed")
        elif (convergence.get("verified_at") or 0) <= seen:
            self._find(f"I-{row['seq']} counts as verified by the look that made it observed")
        if not any(at >= seen for at in taken):
            self._find(f"I-{row['seq']} was observed by a look that nobody took")

    def _judge_beside(self, row: dict[str, Any], records: Rows, approvals: Rows) -> None:
        name, state = f"I-{row['seq']}", row["state"]
        record = records.get(row["action_seq"] or 0)
        if record is not None and state not in AGREE.get(record["state"], (state,)):
            self._find(f"{name} is {state}, and X-{record['seq']}, which carries it out, is {record['state']}")
        approval = approvals.get(row["approval_seq"] or 0)
        if approval is None:
            return
        asked = approval["status"]
        if state in ENDS and asked in ("pending", "granted"):
            self._find(f"{name} is {state}, and A-{approval['seq']} for it is still {asked}")
        if state == "intent_accepted" and asked != "granted":
            self._find(f"{name} is accepted on A-{approval['seq']}, which is {asked}")
        if state == "proposed" and asked not in ("pending", "granted"):
            self._find(f"{name} still waits for A-{approval['seq']}, which is {asked}")

    # ------------------------------------------------------------------------------------------- commit 1
    def on_commit_1(self, record: dict[str, Any], request: Mapping[str, Any]) -> None:
        """A side effect is about to begin."""
        name, target, kind = f"X-{record['seq']}", record["target"], record["kind"]
        block = self._blocks.get(target)
        if block is None:
            return
        if block["mode"] != "native":
            if kind in COUNTS:
                self._find(f"{name} begins {kind} of {target}, whose count is written by {block['mode']}")
            return
        if kind != "scale_service":
            return
        if request["source"] == "reconciler":
            self._judge_override(name, target, record["started_at"])
        if request["source"] in ("autoscaler", "deploy_watch"):
            self._judge_native(name, record, request)

    def _judge_override(self, name: str, target: str, at: int) -> None:
        standing = [
            one
            for one in self._overrides.values()
            if one["service"] == target
            and one["ended_at"] is None
            and one["replicas"] is not None
            and (one["until"] is None or one["until"] > at)
        ]
        if not standing:
            self._find(f"{name} puts back the count of {target}, which follows load: it has two writers")

    def _judge_native(self, name: str, record: dict[str, Any], request: Mapping[str, Any]) -> None:
        target, at = record["target"], record["started_at"]
        block, asked = self._blocks[target], request["params"]["replicas"]
        rows = [one for one in self.rows.values() if one["action_seq"] == record["seq"]]
        if len(rows) != 1:
            self._find(f"{name} scales {target}, and {len(rows)} intents stand behind it")
            return
        [row] = rows
        intent = json.loads(row["intent"])
        if row["revision"] != self._latest[target]:
            latest = self._latest[target]
            self._find(f"{name} carries out revision {row['revision']} of {target}, {latest} is the latest")
        if row["state"] != "intent_accepted":
            self._find(f"{name} carries out I-{row['seq']}, which is {row['state']}")
        if (row["desired"], row["decision_seq"], intent["intent_id"]) != (
            asked,
            record["decision_seq"],
            record["key"],
        ):
            self._find(f"{name} is not what I-{row['seq']} asks for")
        self._judge_question(name, row, at)
        if block["paused"]:
            self._find(f"{name} scales {target}, whose scaling is paused")
        there = request["evidence"]["facts"]["total"]
        self._judge_bounds(name, target, there, asked, "at commit 1")
        if record["dry_run"]:
            return
        last = max(self._scaled.get(target, [0]))
        if at < last + block["cooldown_s"] * SECOND:
            self._find(f"{name} scales {target} {(at - last) / SECOND:.1f} s after its last change")

    def _judge_question(self, name: str, row: dict[str, Any], at: int) -> None:
        """What a person granted: the newest tick that had evidence still asks for it, and one did not long ago."""
        if row["approval_seq"] is None or row["operation"] != "scale":
            return
        told = row["convergence"]
        want = (json.loads(told) if isinstance(told, str) else told or {}).get("want") or {}
        if want.get("against_since") is not None:
            self._find(f"{name} carries out I-{row['seq']}, a granted question that load does not ask any more")
        if want.get("too_far"):
            self._find(f"{name} carries out I-{row['seq']}, a granted question that takes more than load allows")
        wanted = want.get("wanted_at", json.loads(row["intent"])["created_at"])
        if at >= wanted + SILENT_S * SECOND:
            self._find(f"{name} carries out I-{row['seq']}, a granted question of which nothing is known any more")

    # ------------------------------------------------------------------------------------------- the end
    def unprepared(self, decision_seq: int) -> bool:
        """Whether a decision's intent ended before anything was authorised: it then led to no record."""
        return any(one["decision_seq"] == decision_seq and one["state"] in ENDS for one in self.rows.values())

    def finish(self) -> None:
        """Nothing is left on its way."""
        for row in self.rows.values():
            if row["state"] not in ENDS:
                self._find(f"at the end I-{row['seq']} is still {row['state']}")
