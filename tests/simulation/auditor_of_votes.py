"""The auditor's rules on approvals: who may answer, whose yes counts how often, what a no does, when time is up.

It counts the votes of each approval itself, from the rows in which they were cast and from what people were told.  As
the auditor itself it knows rows and events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["VotesAuditor"]

SECOND = 1_000_000
Row = Mapping[str, Any]


class VotesAuditor:
    """`find` takes a sentence for what is wrong.  `open_s`: how long an approval waits for people."""

    def __init__(self, find: Callable[[str], None], open_s: float | None) -> None:
        self._find = find
        self._open = None if open_s is None else int(open_s * SECOND)
        self._rows: dict[int, dict[str, Any]] = {}
        self._votes: dict[int, dict[str, dict[str, Any]]] = {}  # approval → person → vote
        self._no: set[tuple[int, str]] = set()
        self._approvers: Row | None = None
        self._overridden: set[str] = set()  # services whose rule somebody has set aside at run time
        self._fresh: set[int] = set()
        self.figures: Counter[str] = Counter()
        self.handlers = {
            "approvers": self._on_approvers,
            "policy_overrides": self._on_override,
            "approvals": self._on_approval,
            "votes": self._on_vote,
            "no": self._on_no,
            "heard": self._on_heard,
            "commit": self._on_commit,
        }

    def _on_approvers(self, event: Any) -> None:
        self._approvers = event.data

    def _on_override(self, event: Any) -> None:
        target = json.loads(event.data["rule"])["target"]
        (self._overridden.discard if event.what == "delete" else self._overridden.add)(target)

    # ------------------------------------------------------------------------------------------- what people said
    def _on_no(self, event: Any) -> None:
        self._no.add((event.data["approval"], event.data["by"]))

    def _on_heard(self, event: Any) -> None:
        """Somebody was told what came of their yes: then it is kept."""
        seq, by = event.data["approval"], event.data["by"]
        self.figures[event.data["what"]] += 1
        if by not in self._votes.get(seq, ()):
            self._find(f"{by} heard that the yes to A-{seq} was taken, and there is no such vote")

    def _on_vote(self, event: Any) -> None:
        vote, seq = dict(event.data), event.data["approval_seq"]
        name, by, row = f"A-{seq}", vote["person"], self._rows[seq]
        if event.what != "insert":
            self._find(f"the vote of {by} on {name} was {event.what}d")
            return
        cast = self._votes.setdefault(seq, {})
        if by in cast:
            self._find(f"{by} has voted on {name} twice")
        cast[by] = vote
        if row["status"] != "pending":
            self._find(f"{by} voted on {name}, which was {row['status']}")
        if vote["at"] >= row["expires_at"]:
            self._find(f"{by} voted on {name} after its time was over")
        if vote["decision"] == "approved":
            if by == json.loads(row["request"])["requested_by"]:
                self._find(f"{by} asked for {name}, and approved it")
            if not self._may(row, json.loads(vote["teams"])):
                self._find(f"{by} approved {name}, and is of none of the teams that it needs")
        self._fresh.add(seq)

    @staticmethod
    def _may(row: Row, teams: list[str]) -> bool:
        needed = json.loads(row["needed"])
        if needed.get("nobody"):
            return False
        return not needed.get("teams") or bool(set(needed["teams"]) & set(teams))

    # ------------------------------------------------------------------------------------------- approvals
    def _on_approval(self, event: Any) -> None:
        row = dict(event.data)
        seq, old = row["seq"], self._rows.get(row["seq"])
        self._rows[seq] = row
        self._fresh.add(seq)
        if old is None:
            self._judge_new(f"A-{seq}", row)
        elif old["needed"] != row["needed"] or old["expires_at"] != row["expires_at"]:
            self._find(f"A-{seq} needs others, or has more time, than when it was filed")
        elif old["status"] != row["status"]:
            self.figures[f"{old['status']} to {row['status']}"] += 1
            self._judge_end(f"A-{seq}", row, old["status"])

    def _judge_new(self, name: str, row: Row) -> None:
        if self._open is not None and row["expires_at"] != row["created_at"] + self._open:
            self._find(f"{name} waits for {(row['expires_at'] - row['created_at']) / SECOND:g} s")
        if self._approvers is None or row["target"] in self._overridden:
            return
        teams, owner = self._approvers["teams"], self._approvers["owners"].get(row["target"])
        if owner is None:
            return
        if teams is None:
            teams = (owner,) if owner else ()
        elif not teams:
            teams = None
        needed = json.loads(row["needed"])
        told = None if needed.get("nobody") else tuple(needed.get("teams", ()))
        if (needed.get("count", 1), told) != (self._approvers["count"], teams):
            self._find(f"{name} needs {row['needed']}, its rule says {self._approvers['count']} of {teams}")

    def _judge_end(self, name: str, row: Row, before: str) -> None:
        to, seq = row["status"], row["seq"]
        cast = self._votes.get(seq, {})
        if to == "granted":
            asker = json.loads(row["request"])["requested_by"]
            yes = [
                by
                for by, vote in cast.items()
                if vote["decision"] == "approved" and by != asker and self._may(row, json.loads(vote["teams"]))
            ]
            if len(yes) < self._count(row):
                self._find(f"{name} was granted by {', '.join(yes) or 'nobody'}, {self._count(row)} are needed")
            self.figures[f"granted by {len(yes)}"] += 1
        elif to == "expired" and row["ended_at"] < row["expires_at"]:
            early = (row["expires_at"] - row["ended_at"]) / SECOND
            self._find(f"{name} expired {early:g} s before its time was over")
        elif to == "rejected" and not any(of == seq for of, _ in self._no):
            self._find(f"{name} was rejected, and nobody said no")
        elif to == "rejected" and before == "pending" and not self._denied(seq):
            self._find(f"{name} was rejected while it waited, and no vote says so")

    @staticmethod
    def _count(row: Row) -> int:
        return int(json.loads(row["needed"]).get("count", 1))

    def _denied(self, seq: int) -> bool:
        return any(vote["decision"] == "denied" for vote in self._votes.get(seq, {}).values())

    def _on_commit(self, _: Any) -> None:
        """A transaction is over: what it left of each approval fits its votes."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, set()
        for seq in sorted(fresh):
            row, cast = self._rows[seq], self._votes.get(seq, {})
            shown = [(vote["by"], vote["decision"]) for vote in json.loads(row["votes"])]
            if sorted(shown) != sorted((by, vote["decision"]) for by, vote in cast.items()):
                self._find(f"A-{seq} shows the votes {shown}, cast were {sorted(cast)}")
            if row["status"] == "pending" and self._denied(seq):
                self._find(f"somebody said no to A-{seq}, and it still waits")
            if row["status"] == "pending":
                yes = [by for by, vote in cast.items() if vote["decision"] == "approved"]
                if len(yes) >= self._count(row):
                    self._find(f"A-{seq} has all the votes that it needs, and still waits")
