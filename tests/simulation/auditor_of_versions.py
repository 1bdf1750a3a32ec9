"""The auditor's rules on versions: what failed its watch is set aside, nobody starts it, and what was well comes back.

It keeps its own account of quarantines, of what was declared and of which version passed or failed, and holds every
deploy and every rollback against it.  As the auditor itself it knows rows and events only, and shares nothing with the
product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["VersionsAuditor"]

VERSIONS = ("deploy_service", "rollback_service")
ROLLBACK = "rollback_service"
ALLOWS = ("allow", "allow_notify", "queue_approval")
ATTEMPTS_MAX = 3
LEFT_ALONE = (  # what a failed watch may lead to instead of a rollback, in the words that people are told
    "does not run any more", "mode is observe", "not in the registry", "left to watch", "was not allowed",
    "nothing came of",
)  # fmt: skip
Row = Mapping[str, Any]
Rows = Mapping[int, dict[str, Any]]


class VersionsAuditor:
    """`find` takes a sentence for what is wrong; the rows are kept up to date by whoever walks."""

    def __init__(self, find: Callable[[str], None], watches: Rows, records: Rows, decisions: Rows) -> None:
        self._find = find
        self._watches, self._records, self._decisions = watches, records, decisions
        self._declared: dict[str, str] = {}
        self._final: dict[str, set[str]] = {}  # versions that cannot be left, nor gone back to
        self._cleared: Counter[str] = Counter()  # how often people cleared what was set aside
        self._quarantines: dict[int, dict[str, Any]] = {}
        self._ran: dict[str, list[dict[str, Any]]] = {}  # service → its versions as they were rolled out
        self._rows_of: dict[int, dict[str, Any]] = {}  # action → the version that it left
        self._states: dict[int, str] = {}  # record → where it was
        self._begun: list[int] = []  # records whose commit 1 is in this transaction
        self._ended: list[int] = []
        self._failed: set[int] = set()  # watches whose verdict has been judged
        self._fresh: set[int] = set()
        self._proposed: dict[int, list[int]] = {}  # failed watch → decisions to roll back
        self._of: dict[int, int] = {}  # decision → the failed watch that it is for
        self._back: dict[int, set[str]] = {}  # failed watch → what it could go back to when it failed
        self.figures: Counter[str] = Counter()
        self.handlers: dict[str, Callable[[Any], None]] = {
            "versioned": self._on_versioned,
            "cleared": self._on_cleared,
            "quarantines": self._on_quarantine,
            "ran_versions": self._on_ran,
            "deploy_watches": self._on_watch,
            "decisions": self._on_decision,
            "outbox": self._on_record,
            "commit": self._on_commit,
        }

    # ------------------------------------------------------------------------------------------- what is told
    def _on_versioned(self, event: Any) -> None:
        self._declared[event.data["service"]] = event.data["version"]
        self._final[event.data["service"]] = set(event.data["irreversible"])

    def _on_cleared(self, event: Any) -> None:
        self._cleared[event.data["service"]] += 1

    def _on_quarantine(self, event: Any) -> None:
        row, name = dict(event.data), f"Q-{event.data['seq']}"
        old = self._quarantines.get(row["seq"])
        self._quarantines[row["seq"]] = row
        if event.what == "delete":
            self._find(f"{name} was deleted")
        elif old is None:
            self.figures["quarantine"] += 1
            watch = self._watches.get(row["watch_seq"])
            if watch is None or (watch["status"], watch["version"]) != ("failed", row["version"]):
                self._find(f"{name} sets {row['version']} of {row['service']} aside, and no watch of it failed")
        elif not self._cleared[row["service"]] or not row["cleared_by"]:
            self._find(f"{name} was cleared, and nobody asked for that")

    def _on_ran(self, event: Any) -> None:
        row = dict(event.data)
        if event.what != "insert":
            self._find(f"what ran of {row['service']} was {event.what}d")
        self._ran.setdefault(row["service"], []).append(row)
        self._rows_of[row["action_seq"]] = row

    def _on_watch(self, event: Any) -> None:
        self._fresh.add(event.data["seq"])

    def _on_decision(self, event: Any) -> None:
        row = event.data
        first = event.what == "insert" and row["kind"] == ROLLBACK and row["source"] == "deploy_watch"
        if first and row["verdict"] in ALLOWS and "." not in json.loads(row["request"])["key"]:
            self._judge_rollback(row)

    def _on_record(self, event: Any) -> None:
        seq, state = event.data["seq"], event.data["state"]
        before = self._states.get(seq)
        self._states[seq] = state
        if (before, state) == ("prepared", "running"):
            self._begun.append(seq)
        elif before in ("running", "recovery_pending") and state in ("succeeded", "failed"):
            self._ended.append(seq)

    # ------------------------------------------------------------------------------------------- a commit
    def _on_commit(self, _: Any) -> None:
        """A transaction is over: what began is allowed to start its version, what failed was set aside."""
        for seq in self._begun:
            self._judge_begin(self._records[seq])
        for seq in self._ended:
            self._judge_outcome(self._records[seq])
        for seq in sorted(self._fresh):
            self._judge_watch(self._watches[seq])
        self._begun, self._ended, self._fresh = [], [], set()

    def _standing(self, service: str) -> set[str]:
        return {
            one["version"]
            for one in self._quarantines.values()
            if one["service"] == service and one["cleared_at"] is None
        }

    def _judge_watch(self, row: Row) -> None:
        name = f"V-{row['seq']}"
        if row["kind"] == ROLLBACK and row["on_fail"] == "rollback":
            self._find(f"{name} would roll back a rollback")
        if row["status"] != "failed" or row["seq"] in self._failed:
            return
        self._failed.add(row["seq"])
        if not row["changes_version"] or not row["version"]:
            return
        self.figures["failed"] += 1
        if row["version"] not in self._standing(row["service"]):
            self._find(f"{name} failed, and version {row['version']} of {row['service']} is not set aside")
        self._back[row["seq"]] = self._fit(row)

    def _fit(self, watch: Row) -> set[str]:
        """What this failed watch's service can go back to: what passed last time, here, and was rolled out whole."""
        service = watch["service"]
        final = self._final.get(service, set())
        if watch["kind"] == ROLLBACK or watch["version"] in final:
            return set()
        newest: dict[str, bool] = {}
        for one in sorted(self._watches.values(), key=lambda one: -int(one["seq"])):
            told = one["proven"] or (one["changes_version"] and one["status"] == "failed")
            if one["service"] == service and told and one["seq"] != watch["seq"]:
                newest.setdefault(one["version"], bool(one["proven"]))
        whole = {one["version"]: bool(one["complete"]) for one in self._ran.get(service, ())}
        held = self._standing(service) | final | {watch["version"]}
        return {one for one, well in newest.items() if well and whole.get(one, True)} - held

    def _judge_begin(self, row: Row) -> None:
        """Commit 1 of what starts a version."""
        request, service, name = json.loads(row["request"]), row["target"], f"X-{row['seq']}"
        version = self._declared.get(service, "")
        if row["kind"] in VERSIONS:
            version = request["params"]["version"]
            self.figures[f"{row['kind']} by {request['source']}"] += 1
        elif row["kind"] != "start_service" or row["dry_run"]:
            return
        if version in self._standing(service):
            self._find(f"{name} ({row['kind']}) starts version {version} of {service}, which is set aside")
        if request["source"] == "reconciler" and row["kind"] == "deploy_service":
            if version != self._declared[service]:
                self._find(f"{name} deploys {version} of {service}, {self._declared[service]} is declared")
            self._judge_again(name, service, version)
        if request["source"] == "deploy_watch" and row["kind"] == ROLLBACK:
            self._judge_once(name, row)

    def _judge_again(self, name: str, service: str, version: str) -> None:
        """What was rolled back from is deployed again because a person says so."""
        last = self._ran[service][-1] if self._ran.get(service) else None
        if last is None or last["kind"] != ROLLBACK or version == last["version"]:
            return
        forgiven = any(
            (one["service"], one["version"]) == (service, version) and (one["cleared_at"] or -1) >= last["at"]
            for one in self._quarantines.values()
        )
        if version in last["before"].split(", ") and not forgiven:
            self._find(f"{name} deploys {version} of {service}, which was rolled back by X-{last['action_seq']}")

    # ------------------------------------------------------------------------------------------- rollbacks
    def _judge_rollback(self, row: Row) -> None:
        """A rollback is asked for: after a failed watch, to what was well, and to nothing else."""
        service, name = row["target"], f"D-{row['seq']}"
        version = json.loads(row["request"])["params"]["version"]
        changes = [one for one in self._watches.values() if one["service"] == service and one["changes_version"]]
        last = max(changes, key=lambda one: int(one["seq"])) if changes else None
        if last is None or (last["status"], last["on_fail"]) != ("failed", "rollback"):
            self._find(f"{name} rolls {service} back, and its last change of version has not failed")
            return
        self._of[row["seq"]] = last["seq"]
        asked = self._proposed.setdefault(last["seq"], [])
        asked.append(row["seq"])
        if len(asked) > ATTEMPTS_MAX:
            self._find(f"{name} is the {len(asked)}th rollback after V-{last['seq']}")
        fit = self._fit(last)
        if version not in fit:
            self._find(f"{name} rolls {service} back to {version}, and {sorted(fit) or 'nothing'} was well here")

    def _judge_once(self, name: str, row: Row) -> None:
        """A rollback begins: no other one of the same watch was carried out, or may have been."""
        first = self._first(row["decision_seq"], row["approval_seq"])
        watch = self._of.get(first)
        if watch is None:
            self._find(f"{name} rolls {row['target']} back, and no failed watch asked for it")
            return
        for other in self._records.values():
            mine = self._of.get(self._first(other["decision_seq"], other["approval_seq"])) == watch
            lost = other["state"] == "abandoned" or (other["state"] == "failed" and other["settled_by"])
            if mine and other["seq"] != row["seq"] and not lost:
                self._find(f"{name} is one more rollback after V-{watch}, beside X-{other['seq']} ({other['state']})")

    def _first(self, decision: int, approval: int | None) -> int:
        """The decision that was first given, where this one is of a grant's record."""
        if approval is None:
            return decision
        asked = [one["seq"] for one in self._decisions.values() if one["approval_seq"] == approval]
        return min([decision, *asked])

    def _judge_outcome(self, row: Row) -> None:
        """What was rolled out, or in part, is on record as that."""
        if row["kind"] not in VERSIONS or row["dry_run"]:
            return
        code, done = json.loads(row["outcome"] or "{}").get("code", ""), row["state"] == "succeeded"
        ran, version = self._rows_of.get(row["seq"]), json.loads(row["request"])["params"]["version"]
        if ran is None:
            if done or code == "partial":
                self._find(f"X-{row['seq']} rolled {version} of {row['target']} out, and it is not on record")
        elif (ran["version"], bool(ran["complete"])) != (version, done):
            self._find(f"X-{row['seq']} rolled {version} out, on record is {ran['version']} ({ran['complete']})")

    # ------------------------------------------------------------------------------------------- the end
    def finish(self) -> None:
        """What failed and could go back was asked to, unless something else came first."""
        for seq, fit in self._back.items():
            watch = self._watches[seq]
            later = any(
                one["service"] == watch["service"] and one["seq"] > seq and one["changes_version"]
                for one in self._watches.values()
            )
            if watch["on_fail"] != "rollback" or later or not fit - self._standing(watch["service"]):
                continue
            alone = any(words in watch["follow_up"] for words in LEFT_ALONE)
            if not self._proposed.get(seq) and not alone:
                self._find(f"V-{seq} failed, {sorted(fit)} was well, and nobody went back ({watch['follow_up']!r})")
