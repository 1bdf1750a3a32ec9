"""The auditor's rules on wishes: nobody is blamed for nothing, what is held is not undone, an override is obeyed.

As the auditor itself it knows rows and events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["WishesAuditor"]


class WishesAuditor:
    """`find` takes a sentence for what is wrong."""

    def __init__(self, find: Callable[[str], None]) -> None:
        self._find = find
        self._touches: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        self._blamed: Counter[str] = Counter()
        self._changes: dict[int, dict[str, Any]] = {}
        self._overrides: dict[int, dict[str, Any]] = {}

    def on_other(self, target: str, step: int) -> None:
        """Somebody else touched the substrate."""
        self._touches[target] += 1
        self._last[target] = step

    def on_revived(self, target: str, step: int) -> None:
        """An instance that carries no key came back by itself: nobody set anything, and it has another identity."""
        self._last[target] = step

    def touched_since(self, target: str, step: int) -> bool:
        """Whether somebody else touched it after that step."""
        return self._last.get(target, -1) > step

    def on_change(self, what: str, row: dict[str, Any]) -> None:
        target = row["service"]
        self._changes[row["seq"]] = row
        if what == "insert":
            self._blamed[target] += 1
            if self._blamed[target] > self._touches[target]:
                self._find(f"C-{row['seq']} blames somebody else for {target}, and nobody else touched it")

    def on_override(self, row: dict[str, Any]) -> None:
        self._overrides[row["seq"]] = row

    def on_commit_1(self, record: dict[str, Any], request: dict[str, Any]) -> None:
        """A controller's action is about to begin."""
        if request["source"] != "reconciler":
            return
        name, target, at = f"X-{record['seq']}", record["target"], record["started_at"]
        kind, asked = record["kind"], request.get("params", {}).get("replicas")
        held = [
            one
            for one in self._changes.values()
            if one["service"] == target
            and one["status"] == "held"
            and (one["hold_until"] is None or one["hold_until"] > at)
        ]
        if any(one["pauses"] for one in held):
            self._find(f"{name} begins {kind} of {target}, which is paused")
        for one in held:
            if one["field"] == "replicas" and kind == "scale_service" and str(asked) != one["after"]:
                self._find(f"{name} undoes C-{one['seq']}: {target} to {asked}, held at {one['after']}")
            if one["field"] == "state" and kind == "start_service":
                self._find(f"{name} starts {target}, which somebody stopped (C-{one['seq']})")
        adopted = [one for one in self._changes.values() if one["service"] == target and one["status"] == "adopted"]
        if held or adopted:
            return
        for one in self._overrides.values():
            if one["service"] != target or one["ended_at"] is not None:
                continue
            if one["until"] is not None and one["until"] <= at:
                continue
            if one["replicas"] is not None and kind == "scale_service" and asked != one["replicas"]:
                self._find(f"{name} scales {target} to {asked} against O-{one['seq']}")
            if one["state"] == "stopped" and kind in ("start_service", "scale_service"):
                self._find(f"{name} begins {kind} of {target} against O-{one['seq']}")

    @staticmethod
    def request_of(record: dict[str, Any]) -> dict[str, Any]:
        """The request that a record carries."""
        return dict(json.loads(record["request"]))
