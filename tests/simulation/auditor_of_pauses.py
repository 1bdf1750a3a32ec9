"""Holds every decision of the reconciler against the rows of failures before it; shares no code with the product.

After three failures in a row of the very same request nothing is decided for it before the pause is over: `first_s`
after the third, twice that after each further one, an hour at most.  A success of the same request, or of another kind
on the target, begins a new row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["PausesAuditor"]


class PausesAuditor:
    """`find` takes a sentence for what is wrong; `first_s`: the first pause, in seconds."""

    def __init__(self, find: Callable[[str], None], first_s: float) -> None:
        self._find = find
        self._first_s = first_s
        self._ended: dict[str, list[tuple[int, str, str, bool]]] = {}  # time, kind, digest, failed
        self.longest = 0  # the longest row that a decision was held against

    def on_execution(self, row: dict[str, Any], digest: str) -> None:
        """What came of an action on real things."""
        if row["dry_run"] or row["state"] not in ("executed", "failed"):
            return
        self._ended.setdefault(row["target"], []).append((row["at"], row["kind"], digest, row["state"] == "failed"))

    def on_decision(self, row: dict[str, Any]) -> None:
        """A new decision."""
        request = json.loads(row["request"])
        if row["source"] != "reconciler" or request.get("dry_run") or "." in request["key"]:  # a dot: a grant again
            return
        failures: list[int] = []
        for at, kind, digest, failed in sorted(self._ended.get(row["target"], ())):
            if failed and digest == row["request_digest"]:
                failures.append(at)
            elif not failed and (kind != row["kind"] or digest == row["request_digest"]):
                failures = []
        self.longest = max(self.longest, len(failures))
        if len(failures) < 3:
            return
        pause_s = min(self._first_s * 2 ** (len(failures) - 3), 3600)
        if row["at"] < failures[-1] + pause_s * 1_000_000:
            waited = (row["at"] - failures[-1]) / 1e6
            self._find(
                f"D-{row['seq']} repeats what failed {len(failures)} times in a row after {waited:.1f} s,"
                f" {pause_s:.0f} s have to pass"
            )
