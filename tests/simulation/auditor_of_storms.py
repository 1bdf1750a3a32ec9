"""The auditor's rules on storms: while a breaker is open controllers act on nothing, and each opening is told once.

As the auditor itself it knows rows and events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["StormsAuditor"]

SECOND = 1_000_000
CALM = 300 * SECOND
SHARE = 30  # percent of the services
NAMED_MAX = 20
FLEET = ""
CONTROLLERS = ("reconciler", "autoscaler", "playbook", "deploy_watch")
DENIED = ("restart_service", "stop_service", "deploy_service", "rollback_service", "scale_service")
ALLOWS = ("allow", "allow_notify")
Open = dict[str, dict[str, Any]]


class StormsAuditor:
    """`find` takes a sentence for what is wrong.  `least`: how many sick services open a breaker, at least."""

    def __init__(self, find: Callable[[str], None], least: int) -> None:
        self._find = find
        self._least = least
        self.open: Open = {}
        self.opened = 0  # how often one was, in this history
        self._changes: list[tuple[Open, int]] = []  # of this transaction: what is open then, and when
        self._told: list[dict[str, Any]] = []

    def on_change(self, row: Mapping[str, Any]) -> None:
        self._changes.append((json.loads(row["value"]).get("open", {}), row["at"]))

    def on_notice(self, row: Mapping[str, Any]) -> None:
        detail = json.loads(row["detail"])
        if "storm" in detail:
            self._told.append({**row, "detail": detail})

    # ------------------------------------------------------------------------------------------- who acts
    def on_decision(self, row: Mapping[str, Any]) -> None:
        if row["verdict"] in ALLOWS:
            self._judge(f"D-{row['seq']} allows", row["kind"], row["target"], json.loads(row["request"]))

    def on_commit_1(self, row: Mapping[str, Any], request: Mapping[str, Any]) -> None:
        self._judge(f"X-{row['seq']} begins", row["kind"], row["target"], request)

    def _judge(self, what: str, kind: str, target: str, request: Mapping[str, Any]) -> None:
        group = request.get("group", "")
        covered = FLEET in self.open or (group and f"group:{group}" in self.open)
        if covered and kind in DENIED and request["source"] in CONTROLLERS:
            self._find(f"{what} {kind} of {target} for a controller while the storm breaker is open")

    # ------------------------------------------------------------------------------------------- what is open
    def on_commit(self, name: str) -> None:
        changes, self._changes = self._changes, []
        told, self._told = self._told, []
        pages = [one for one in told if one["severity"] == "critical"]
        expected = 0
        for after, at in changes:
            before, self.open = self.open, after
            opened = sorted(scope for scope in after if scope not in before)
            expected += bool(opened) and FLEET not in before
            self.opened += len(opened)
            for scope in opened:
                self._judge_opened(scope, after[scope])
            for scope, was in before.items():
                if scope not in after:
                    self._judge_closed(name, scope, was, at, told)
                elif after[scope]["since"] != was["since"]:
                    self._find(f"the storm of {scope or 'the fleet'} began anew while it lasted")
                elif None not in (was["calm_since"], now := after[scope]["calm_since"]) and was["calm_since"] != now:
                    self._find(f"the calm in the storm of {scope or 'the fleet'} was dated anew")
        if len(pages) != expected:
            self._find(f"{len(pages)} pages went out for {expected} openings of the storm breaker")

    def _judge_opened(self, scope: str, row: Mapping[str, Any]) -> None:
        most = max(self._least, -int(-(row["total"] * SHARE) // 100))
        if row["sick"] < most or len(set(row["names"])) != min(row["sick"], NAMED_MAX):
            self._find(
                f"the storm breaker of {scope or 'the fleet'} opened at {row['sick']} of {row['total']} services"
                f" ({', '.join(row['names'])}), it takes {most}"
            )

    def _judge_closed(self, name: str, scope: str, was: Mapping[str, Any], at: int, told: list[dict[str, Any]]) -> None:
        if not any(scope in one["detail"]["storm"] for one in told):
            self._find(f"nobody was told that the storm of {scope or 'the fleet'} is over")
        if name == "storm_clear":
            return
        since = was["calm_since"]
        if since is None or at - since < CALM:
            waited = "0" if since is None else f"{(at - since) / SECOND:.0f}"
            self._find(f"the storm of {scope or 'the fleet'} ended after {waited} s of calm, 300 s have to pass")
