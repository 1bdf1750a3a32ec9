"""The auditor's rules on watches: each action that changes something has one, in its own window, judged by looks only.

It keeps the rows of watches as they were written and holds every verdict against the looks that were really taken.  As
the auditor itself it knows rows and events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["WatchesAuditor"]

SECOND = 1_000_000
WATCHED = ("restart_service", "start_service", "deploy_service", "rollback_service")
ENDS = ("success", "failed", "unobserved", "replaced")
TERMS = ("service", "action_seq", "kind", "source", "from_replicas", "replica", "on_fail", "started", "settled")
LATE = 60 * SECOND  # how long after its deadline a watch may still run when all has calmed down
Rows = Mapping[int, dict[str, Any]]


class WatchesAuditor:
    """`find` takes a sentence for what is wrong.  `window_s`: seconds from an action's end to its watch's deadline."""

    def __init__(self, find: Callable[[str], None], window_s: float) -> None:
        self._find = find
        self._window = int(window_s * SECOND)
        self.rows: dict[int, dict[str, Any]] = {}
        self._fresh: list[tuple[dict[str, Any], dict[str, Any]]] = []  # row, and as it was before
        self._done: list[dict[str, Any]] = []  # executions of this transaction
        self._rollbacks: dict[int, int] = {}  # watch → intents that go back to the count from before it

    # ------------------------------------------------------------------------------------------- what is told
    def on_watch(self, what: str, row: dict[str, Any]) -> None:
        name, old = f"V-{row['seq']}", self.rows.get(row["seq"])
        if what == "delete":
            self._find(f"{name} was deleted")
            return
        if old is None:
            if row["status"] != "running":
                self._find(f"{name} begins as {row['status']}")
        else:
            self._judge_change(name, old, row)
        self.rows[row["seq"]] = row
        self._fresh.append((row, old or {}))

    def on_execution(self, row: dict[str, Any]) -> None:
        self._done.append(row)

    def _judge_change(self, name: str, old: dict[str, Any], row: dict[str, Any]) -> None:
        if old["status"] in ENDS and old["status"] != row["status"]:
            self._find(f"{name} ended as {old['status']} and became {row['status']}")
        moved = [term for term in TERMS if old[term] != row[term]]
        if moved:
            self._find(f"{name} has another {', '.join(moved)} than it began with")
        if old["poll"] and (old["deadline"], old["grace_until"]) != (row["deadline"], row["grace_until"]):
            self._find(f"{name} has another window than its first step recorded")
        if row["made"] < old["made"] or row["usable"] < old["usable"]:
            self._find(f"{name} forgot looks that it had counted")

    # ------------------------------------------------------------------------------------------- a commit
    def on_commit(self, records: Rows, looks: Mapping[str, list[tuple[int, int]]]) -> None:
        """A transaction is over: what it did is watched, and what it judged rests on looks."""
        fresh, self._fresh = self._fresh, []
        done, self._done = self._done, []
        for row in done:
            if row["state"] == "executed" and row["ok"] and not row["dry_run"]:
                self._judge_watched(row, records)
        for row, before in fresh:
            if row["deadline"] != row["settled"] + self._window:
                self._find(f"V-{row['seq']} does not last for its window of {self._window / SECOND:g} s")
            judged = row["status"] in ("success", "failed") and before.get("status") == "running"
            if judged and not self._never_came_up(row, done):
                self._judge_verdict(row, looks)
        if fresh:
            running: dict[str, list[int]] = {}
            for row in self.rows.values():
                if row["status"] == "running":
                    running.setdefault(row["service"], []).append(row["seq"])
            for service, ones in running.items():
                if len(ones) > 1:
                    self._find(f"{service} has more than one running watch: {ones}")

    def _judge_watched(self, row: dict[str, Any], records: Rows) -> None:
        request = json.loads(records[row["action_seq"]]["request"])
        follows_load = row["kind"] == "scale_service" and request["source"] == "autoscaler"
        wanted = row["kind"] in WATCHED or (follows_load and request["direction"] == "up")
        mine = [one for one in self.rows.values() if one["action_seq"] == row["action_seq"]]
        if wanted and len(mine) != 1:
            self._find(f"X-{row['action_seq']} ({row['kind']}) was done, and {len(mine)} watches follow it")
        if mine and not wanted:
            self._find(f"X-{row['action_seq']} ({row['kind']}) has a watch that nothing asks for")

    @staticmethod
    def _never_came_up(row: dict[str, Any], done: list[dict[str, Any]]) -> bool:
        """Whether it failed before it began, since what was rolled out stopped with what did not come up."""
        partial = ("failed", "partial")
        return row["status"] == "failed" and any(
            one["action_seq"] == row["action_seq"] and (one["state"], one["code"]) == partial for one in done
        )

    def _judge_verdict(self, row: dict[str, Any], looks: Mapping[str, list[tuple[int, int]]]) -> None:
        """A verdict rests on a look from after the action; success comes at the deadline, and with a healthy look."""
        name, status = f"V-{row['seq']}", row["status"]
        taken = [at for times in looks.values() for at, _ in times]
        if not any(row["settled"] < at <= row["ended_at"] for at in taken):
            self._find(f"{name} ended as {status} without a look from after its action")
        if row["usable"] < 1 or row["made"] < row["usable"]:
            self._find(f"{name} ended as {status} with {row['usable']} usable looks of {row['made']}")
        probes = [one["sight"] for one in json.loads(row["probes"])]
        if status == "success" and (row["healthy"] < 1 or "down" in probes):
            self._find(f"{name} ended as success after {', '.join(probes)}")
        if status == "success" and row["ended_at"] < row["deadline"]:
            self._find(f"{name} ended as success before its window was over")
        if status == "failed" and row["healthy"] and "down" not in probes:
            self._find(f"{name} ended as failed though nothing was seen down")

    # ------------------------------------------------------------------------------------------- what follows
    def judge_rollback(self, name: str, row: Mapping[str, Any], *, low: int, high: int) -> None:
        """An intent goes back to a count: the one before a failed watch, and once for each."""
        failed = [
            one
            for one in self.rows.values()
            if (one["service"], one["status"], one["on_fail"]) == (row["service"], "failed", "scale_back")
        ]
        if not failed:
            self._find(f"{name} goes back to a count, and no watch of {row['service']} failed")
            return
        last = max(failed, key=lambda one: one["ended_at"])
        count = max(low, min(last["from_replicas"], high))
        if row["desired"] != count:
            self._find(f"{name} goes back to {row['desired']}, and V-{last['seq']} came from {last['from_replicas']}")
        if row["state"] in ("proposed", "intent_accepted"):
            self._rollbacks[last["seq"]] = self._rollbacks.get(last["seq"], 0) + 1
            if self._rollbacks[last["seq"]] > 1:
                self._find(f"{name} goes back once more for V-{last['seq']}")

    # ------------------------------------------------------------------------------------------- the end
    def finish(self, now: int) -> None:
        for row in self.rows.values():
            if row["status"] == "running" and row["deadline"] < now - LATE:
                self._find(f"at the end V-{row['seq']} still runs, {(now - row['deadline']) / SECOND:.0f} s too long")
            if row["status"] == "failed" and row["follow_up"] == "pending" and row["ended_at"] < now - LATE:
                self._find(f"at the end nobody has followed up V-{row['seq']}, which failed")
