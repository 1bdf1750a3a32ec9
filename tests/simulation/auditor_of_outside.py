"""The auditor's rules on actions that others carry out: claimed once, under a yes that holds, and ended once.

It holds what each of the others was told and really did against the rows.  As the auditor itself it knows rows and
events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["OutsideAuditor"]

SECOND = 1_000_000
ALLOWS = ("allow", "allow_notify")
ENDED = ("succeeded", "failed")
KEPT = ("state", "outcome", "finished_at", "settled_by")
OURS = ("restart_service", "scale_service", "stop_service", "start_service", "deploy_service", "rollback_service")
Row = Mapping[str, Any]
Rows = Mapping[int, dict[str, Any]]


class OutsideAuditor:
    """`find` takes a sentence for what is wrong.  `start_s`: how long what was allowed may be claimed."""

    def __init__(self, find: Callable[[str], None], start_s: float) -> None:
        self._find = find
        self._start = int(start_s * SECOND)
        self._records: dict[int, list[int]] = {}  # by the decision that was first given
        self._of: dict[int, int] = {}  # record → that decision
        self._told: set[tuple[int, str, bool]] = set()
        self._handed: Counter[int] = Counter()
        self._acted: Counter[int] = Counter()
        self.figures: Counter[str] = Counter()

    @staticmethod
    def is_outside(row: Row) -> bool:
        """Whether nobody of ours carries it out."""
        return row["kind"] not in OURS and json.loads(row["request"])["source"] == "api"

    # ------------------------------------------------------------------------------------------- what others know
    def on_event(self, data: Row, records: Rows) -> None:
        what, decision, by, ok = data["what"], data["decision"], data["by"], data["ok"]
        self.figures[what] += 1
        mine = [records[seq] for seq in self._records.get(self._first(decision, records), ())]
        if what == "told":
            self._told.add((decision, by, ok))
        elif what == "claimed":
            self._handed[decision] += 1
            if self._handed[decision] > 1:
                self._find(f"D-{decision} was handed out {self._handed[decision]} times, this time to {by}")
            if not any(json.loads(one["fence"])["holder"] == by for one in mine):
                self._find(f"{by} was told to go ahead with D-{decision}, and no record says so")
        elif what == "acted":
            self._acted[decision] += 1
            if self._acted[decision] > 1:
                self._find(f"D-{decision} was carried out twice")
        elif what == "heard" and not any(one["state"] == ("succeeded" if ok else "failed") for one in mine):
            self._find(f"{by} heard that {'success' if ok else 'failure'} of D-{decision} is written, and it is not")
        elif what == "opened" and not any(one["state"] == "succeeded" for one in mine):
            self._find(f"a gate was opened by D-{decision}, and nothing was closed by that")

    def _first(self, decision: int, records: Rows) -> int:
        """The decision that was first given, where this one is of a grant's record."""
        return next((self._of[seq] for seq in self._of if records[seq]["decision_seq"] == decision), decision)

    # ------------------------------------------------------------------------------------------- records
    def on_record(self, row: Row, old: Row | None, decisions: Rows, approvals: Rows) -> None:
        name = f"X-{row['seq']}"
        if old is None:
            self._judge_new(name, row, decisions, approvals)
        elif old["state"] in ENDED and any(old[field] != row[field] for field in KEPT):
            self._find(f"{name} had ended as {old['state']}, and became {row['state']} ({row['outcome']})")

    def _judge_new(self, name: str, row: Row, decisions: Rows, approvals: Rows) -> None:
        """Taken up: under an authorisation that holds, and for the first time."""
        asked = approvals.get(row["approval_seq"] or 0)
        first = decisions[row["decision_seq"] if asked is None else asked["decision_seq"]]
        self._of[row["seq"]] = first["seq"]
        self._records.setdefault(first["seq"], []).append(row["seq"])
        if len(self._records[first["seq"]]) > 1:
            self._find(f"{name} is one more record of D-{first['seq']}")
        at = row["prepared_at"]
        if asked is not None and (asked["status"] != "granted" or at >= asked["expires_at"]):
            self._find(f"{name} was taken up on A-{asked['seq']}, which is {asked['status']}")
        if asked is None and first["verdict"] not in ALLOWS:
            self._find(f"{name} was taken up on D-{first['seq']}, which says {first['verdict']}")
        if asked is None and at >= first["at"] + self._start:
            late = (at - first["at"]) / SECOND
            self._find(
                f"{name} was taken up {late:.0f} s after D-{first['seq']}, {self._start / SECOND:.0f} s are given"
            )

    def on_outcome(self, row: Row, before: str, executions: Mapping[tuple[int, str], Row]) -> None:
        """It ended: as its holder said, or as a person did after nobody knew; or nobody said anything in time."""
        name, to, decision = f"X-{row['seq']}", row["state"], self._of[row["seq"]]
        holder = json.loads(row["fence"])["holder"]
        self.figures[f"{before} to {to}{' by a person' if row['settled_by'] not in ('', holder) else ''}"] += 1
        if to == "recovery_pending":
            at = executions.get((row["seq"], to), {"at": 0})["at"]
            if at < row["horizon_at"]:
                self._find(f"{name} is unknown before its time was over")
        elif row["settled_by"] in ("", holder):
            if (decision, holder, to == "succeeded") not in self._told and row["kind"] != "advance_rollout":
                self._find(f"{name} ended as {to}, which {holder}, who has it, never said")
        elif before != "recovery_pending":
            self._find(f"{name} was {before} when {row['settled_by']} said that it {to}")
