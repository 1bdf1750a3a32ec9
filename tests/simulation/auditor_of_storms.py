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
SICK_WHILE = ("restart_service", "stop_service", "deploy_service", "rollback_service")  # one of these is in flight
OPEN = ("prepared", "running", "recovery_pending")
Open = dict[str, dict[str, Any]]
Rows = Mapping[int, Mapping[str, Any]]


class StormsAuditor:
    """`find` takes a sentence for what is wrong.  `least`: how many sick services open a breaker, at least.

    `services`: all that are declared.
    """

    def __init__(self, find: Callable[[str], None], least: int, services: frozenset[str]) -> None:
        self._find = find
        self._least = least
        self._services = services
        self._flying: list[tuple[int, int]] = [(0, 0)]  # from a step on: how many services something is done to
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
        elif row["severity"] == "critical" and FLEET in self.open and _is_about_sickness(detail):
            self._find(f"another page goes out while the storm breaker is open: J-{row['seq']} by {row['actor']}")

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
    def on_commit(self, name: str, step: int, records: Rows) -> None:
        flying = {
            one["target"]
            for one in records.values()
            if one["state"] in OPEN and one["kind"] in SICK_WHILE and not one["dry_run"]
        }
        if len(flying & self._services) != self._flying[-1][1]:
            self._flying.append((step, len(flying & self._services)))
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

    def on_pass(self, data: Mapping[str, Any]) -> None:
        """A whole pass is over.  Something was done to so many services all the while that it has to be a storm."""
        before = [number for step, number in self._flying if step <= data["began"]][-1:]
        number = min([*before, *(number for step, number in self._flying if step > data["began"])])
        if data["status"] != "not_ready" and number >= self._threshold(len(self._services)) and FLEET not in self.open:
            self._find(f"{data['plane']} looked at {number} services in flight, and no storm breaker is open")

    def _threshold(self, total: int) -> int:
        return max(self._least, -int(-(total * SHARE) // 100))

    def _judge_opened(self, scope: str, row: Mapping[str, Any]) -> None:
        most = self._threshold(row["total"])
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


def _is_about_sickness(detail: Mapping[str, Any]) -> bool:
    """Whether a notice says what a storm's page says already: that something does not work, and is not repaired."""
    return "event" in detail or "watch" in detail or detail.get("incident") == "repeated_failure"
