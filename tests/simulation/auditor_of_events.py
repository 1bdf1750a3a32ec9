"""The auditor's rules on events: what was acknowledged is kept once, and a remedy does each of its steps once.

It keeps its own account of what senders said and were told, and of the rows of events as they were written.  As the
auditor itself it knows rows and events only, and shares nothing with the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import takewhile
from typing import Any

__all__ = ["EventsAuditor"]

SECOND = 1_000_000
TRIAGE = "fleet_event_triage"
FLAPPING_WINDOW_S = 1800
FLAPPING_FROM = 3
SAME_WITHIN_S = 300  # of an end: until then what began before it is a delivery that it overtook
GAP_FROM = 3  # outages in a row that nothing healed
HEALED = ("succeeded", "recovered", "resolved")
GRAVE = ("critical", "error")
ALLOWS = ("allow", "allow_notify")
FIXED = ("at", "key", "source", "severity", "phase", "class", "service", "body", "flap", "late")
Statement = tuple[str, str, int | None]  # an alert, what is said of it, and the beginning that the sender names
Rows = Mapping[int, dict[str, Any]]


class EventsAuditor:
    """`find` takes a sentence for what is wrong.  `age_s`: how old an event may be and still lead to an action."""

    def __init__(self, find: Callable[[str], None], age_s: int) -> None:
        self._find = find
        self._age = age_s * SECOND
        self.rows: dict[int, dict[str, Any]] = {}
        self._stored: dict[Statement, int] = {}
        self._batches: dict[int, list[tuple[Statement, str]]] = {}
        self._meant: dict[Statement, str] = {}
        self._sent: Counter[Statement] = Counter()
        self._kept: Counter[Statement] = Counter()
        self._new_to: Counter[int] = Counter()  # by event: how often a sender was told that it was new
        self._born: list[int] = []  # events of this transaction …
        self._work: list[str] = []  # … and the steps that were enqueued in it
        self._logged: list[tuple[int, list[Any]]] = []  # … and the lines that were added to logs in it
        self._told: Counter[tuple[str, str]] = Counter()  # by event and playbook: notices
        self._lines: Counter[tuple[str, str]] = Counter()  # by event and playbook: steps that told people
        self._asked: dict[tuple[str, str], int] = {}  # by event and step: the decision
        self.answered: Counter[str] = Counter()  # by playbook

    # ------------------------------------------------------------------------------------------- what senders know
    def on_sent(self, data: Mapping[str, Any]) -> None:
        batch = []
        for alert, phase, begun, meant in data["told"]:
            statement = (alert, phase, begun)
            self._sent[statement] += 1
            self._meant[statement] = meant
            batch.append((statement, meant))
        self._batches[data["batch"]] = batch

    def on_kept(self, data: Mapping[str, Any]) -> None:
        """A sender heard that all of its body is kept."""
        batch = self._batches[data["batch"]]
        if len(batch) != len(data["receipts"]):
            self._find(f"{len(batch)} alerts were sent, and {len(data['receipts'])} acknowledged")
        for (statement, _), (seq, doubled) in zip(batch, data["receipts"], strict=False):
            self._kept[statement] += 1
            row = self.rows.get(seq)
            if row is None:
                self._find(f"{statement} was acknowledged as E-{seq}, and nothing is kept")
            elif _statement(row)[:2] != statement[:2] or (statement[2] and _statement(row)[2] != statement[2]):
                self._find(f"{statement} was acknowledged as E-{seq}, which says {_statement(row)}")
            if not doubled:
                self._new_to[seq] += 1
                if self._new_to[seq] > 1:
                    self._find(f"E-{seq} was acknowledged as new twice")

    # ------------------------------------------------------------------------------------------- rows
    def on_event(self, what: str, row: dict[str, Any]) -> None:
        name, old = f"E-{row['seq']}", self.rows.get(row["seq"])
        if what == "delete":
            self._find(f"{name} was deleted")
            return
        self.rows[row["seq"]] = row
        if old is None:
            self._judge_new(name, row)
            return
        if moved := [field for field in FIXED if old[field] != row[field]]:
            self._find(f"{name} has another {', '.join(moved)} than when it was kept")
        if row["repeats"] not in (old["repeats"], old["repeats"] + 1):
            self._find(f"{name} was delivered {old['repeats']} times more, and now {row['repeats']}")
        if old["ended_at"] is not None and old["ended_at"] != row["ended_at"]:
            self._find(f"{name} ended twice")
        self._judge_log(name, old, row)

    def _judge_new(self, name: str, row: dict[str, Any]) -> None:
        statement = _statement(row)
        if row["repeats"] or row["remediation_status"] or json.loads(row["remediation_log"]):
            self._find(f"{name} begins with a past")
        if statement[2] is not None and statement in self._stored and not self._goes_on(statement, row):
            self._find(f"{name} is E-{self._stored[statement]} once more: {statement}")
        if not self._sent[statement]:
            self._find(f"{name} says {statement}, which nobody sent")
        if row["service"] != self._meant.get(statement, row["service"]):
            self._find(f"{name} is about {row['service'] or 'nothing'}, its sender meant {self._meant[statement]!r}")
        self._stored[statement] = row["seq"]
        self._born.append(row["seq"])

    def _goes_on(self, statement: Statement, row: Mapping[str, Any]) -> bool:
        """Whether it is true a second time: what had ended is told again long after its end, or that ends."""
        alert, phase, begun = statement
        other = self._stored.get((alert, "resolved" if phase == "firing" else "firing", begun), 0)
        if other < self._stored[statement]:
            return False
        return phase == "resolved" or row["at"] - self.rows[other]["at"] > SAME_WITHIN_S * SECOND

    def on_work(self, row: Mapping[str, Any]) -> None:
        if row["kind"] == TRIAGE:
            self._work.append(row["key"])

    def on_notice(self, row: Mapping[str, Any]) -> None:
        detail = json.loads(row["detail"])
        if "event" in detail:
            self._told[detail["event"], detail.get("playbook", "")] += 1

    # ------------------------------------------------------------------------------------------- its log
    def _judge_log(self, name: str, old: dict[str, Any], row: dict[str, Any]) -> None:
        if (old["remediation_status"], old["remediation_log"]) == (row["remediation_status"], row["remediation_log"]):
            return
        before, after = json.loads(old["remediation_log"]), json.loads(row["remediation_log"])
        if after[: len(before)] != before:
            self._find(f"what was done about {name} was rewritten")
        if old["remediation_status"] not in ("", "running"):
            self._find(f"{name} had ended as {old['remediation_status']}, and became {row['remediation_status']}")
        fresh = after[len(before) :]
        for line in fresh:
            if before and line["at"] < before[-1]["at"]:
                self._find(f"time went back in the log of {name}")
            again = [one for one in before if "step" in line and one.get("step", -1) >= line["step"]]
            if again:
                self._find(f"{name} took its step {line['step']} ({line['kind']}) again")
            if line["kind"] == "notify":
                self._lines[name, line["playbook"]] += 1
        if not before and row["remediation_status"] == "running":
            self._judge_answered(name, row, fresh[0])
        self._logged.append((row["seq"], fresh))

    def _judge_answered(self, name: str, row: dict[str, Any], line: Mapping[str, Any]) -> None:
        """A playbook takes it up: only what began, is grave, lasts, is young, and is about a service."""
        at = _micros(line["at"])
        why = {
            f"it is {row['phase']}": row["phase"] != "firing",
            f"it is {row['severity']}": row["severity"] not in GRAVE,
            "it came too late": row["late"],
            f"E-{row['repeat_of']} is the same outage": row["repeat_of"] is not None,
            "it has ended": row["ended_at"] is not None,
            "it is about no service": not row["service"],
            f"it is {(at - row['at']) / SECOND:.0f} s old": at - row["at"] > self._age,
        }
        for reason in [reason for reason, holds in why.items() if holds]:
            self._find(f"{name} is answered, and {reason}")
        by, wanted = line["answered_by"], self._playbook_for(row, at)
        if by != wanted:
            self._find(f"{name} ({row['class']}) is answered by {by}, it is one for {wanted}")
        self.answered[by] += 1

    def _playbook_for(self, row: Mapping[str, Any], at: int) -> str:
        outages = self._outages(row["service"], at - FLAPPING_WINDOW_S * SECOND)
        if row["class"] == "pressure":
            return "resource_pressure"
        times = {one["at"] for one in outages}  # what one body tells of a service is one outage
        if row["class"] == "flapping" or (row["class"] == "down" and len(times) >= FLAPPING_FROM):
            return "service_flapping"
        return "service_down" if row["class"] == "down" else "tell"

    # ------------------------------------------------------------------------------------------- what it leads to
    def on_decision(self, row: Mapping[str, Any]) -> None:
        if row["source"] != "playbook":
            return
        name, key = f"D-{row['seq']}", row["key"].partition(".")  # what follows a dot: a grant of what was asked
        event, place, what = _parts(key[0])
        about = self.rows.get(event)
        if about is None:
            self._find(f"{name} is for no event ({row['key']})")
            return
        if not about["service"] or about["service"] != row["target"]:
            self._find(f"{name} is about {row['target']}, E-{event} about {about['service'] or 'nothing'}")
        if key[1]:
            return
        if about["remediation_status"] != "running":
            self._find(f"{name} is asked for E-{event}, which is {about['remediation_status'] or 'not answered'}")
        if row["verdict"] in ALLOWS and what != "decide":
            self._find(f"{name} allows {row['kind']}, which a person was to be asked about")
        if (other := self._asked.setdefault((f"E-{event}", place), row["seq"])) != row["seq"]:
            self._find(f"D-{other} and {name} both ask for step {place} of E-{event}")
        if what == "decide":
            self._judge_asked(name, row, about)
        elif what == "gap":
            self._judge_gap(name, row["target"])

    def _judge_asked(self, name: str, row: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        evidence = json.loads(row["request"]).get("evidence", {})
        by = json.loads(about["remediation_log"])[0].get("answered_by")
        if by != "service_down":
            self._find(f"{name} asks for {row['kind']}, and E-{about['seq']} is one for {by}")
        if evidence.get("facts", {}).get("status") == "up":
            self._find(f"{name} asks to restart {row['target']}, which its own evidence calls up")
        if evidence["observed_at"] - about["at"] > self._age + SECOND:
            old = (evidence["observed_at"] - about["at"]) / SECOND
            self._find(f"{name} is asked for E-{about['seq']}, {old:.0f} s old, {self._age / SECOND:.0f} s are allowed")

    def _judge_gap(self, name: str, service: str) -> None:
        """The failure itself is put before a person once nothing has healed several outages in a row."""
        newest = sorted(self._outages(service, 0), key=lambda one: (one["at"], one["seq"]), reverse=True)
        ill = list(takewhile(lambda one: one["remediation_status"] not in HEALED, newest))
        times = {one["at"] for one in ill if one["severity"] in GRAVE}
        if len(times) < GAP_FROM:
            healed = f", before them E-{newest[len(ill)]['seq']} was healed" if len(ill) < len(newest) else ""
            self._find(f"{name} says that {service} is never healed, there are {len(times)} outages{healed}")

    def _outages(self, service: str, since: int) -> list[dict[str, Any]]:
        """What began an outage of it, and came in time."""
        return [
            one
            for one in self.rows.values()
            if (one["service"], one["class"], one["phase"]) == (service, "down", "firing")
            and not one["late"]
            and one["repeat_of"] is None
            and one["at"] > since
        ]

    # ------------------------------------------------------------------------------------------- a commit
    def on_commit(self, records: Rows, approvals: Rows) -> None:
        born, self._born = self._born, []
        work, self._work = self._work, []
        logged, self._logged = self._logged, []
        if sorted(work) != sorted(f"event:E-{seq}" for seq in born):
            self._find(f"{born} are new, and the steps {work} follow")
        for seq, fresh in logged:
            for line in fresh:
                self._judge_line(f"E-{seq}", line, records, approvals)
        if self._told or self._lines:
            for (name, playbook), count in self._told.items():
                said = self._lines[name, playbook] if playbook else 1
                if count > said:
                    self._find(f"people were told {count} times of {name} ({playbook or 'its end'}), {said} is due")

    def _judge_line(self, name: str, line: Mapping[str, Any], records: Rows, approvals: Rows) -> None:
        if line["kind"] == "notify" and self._told[name, line["playbook"]] < self._lines[name, line["playbook"]]:
            self._find(f"{name} says that people were told, and nobody was")
        if line["kind"] == "decide" and line["outcome"] == "authorised":
            decided = self._asked.get((name, str(line["step"])))
            if line["decision"] != f"D-{decided}":
                self._find(f"{name} says that {line['decision']} authorised its step {line['step']}")
            row = records.get(int(str(line["action"])[2:]))
            if row is None or row["decision_seq"] != decided:
                self._find(f"{name} says that {line['action']} is what was authorised")
        if line["kind"] == "escalate" and line.get("approval") and int(str(line["approval"])[2:]) not in approvals:
            self._find(f"{name} was put before a person as {line['approval']}, which is not there")

    # ------------------------------------------------------------------------------------------- the end
    def finish(self, work: Iterable[Mapping[str, Any]], records: Iterable[Mapping[str, Any]]) -> None:
        for one in work:
            if one["kind"] == TRIAGE and one["state"] != "done":
                self._find(f"at the end W-{one['seq']} ({one['key']}) is {one['state']}")
        kept: Counter[Statement] = Counter()
        for row in self.rows.values():
            kept[_statement(row)] += 1 + row["repeats"]
            if row["remediation_status"] in ("", "running"):
                self._find(f"at the end E-{row['seq']} is still {row['remediation_status'] or 'not answered'}")
        for statement, sent in self._sent.items():
            if not self._kept[statement] <= kept[statement] <= sent:
                self._find(
                    f"{statement} was sent {sent} times, acknowledged {self._kept[statement]} times,"
                    f" and counted {kept[statement]} times"
                )
        self._judge_records(records)

    def _judge_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Each decide step led to one action at most, whatever died between."""
        done: dict[tuple[int, str, str], list[str]] = {}
        for row in records:
            if row["key"].startswith("playbook:") and row["state"] != "abandoned":
                done.setdefault(_parts(row["key"].partition(".")[0]), []).append(f"X-{row['seq']}")
        for (event, place, _), ones in done.items():
            if len(ones) > 1:
                self._find(f"step {place} of E-{event} was carried out as {', '.join(ones)}")


def _parts(key: str) -> tuple[int, str, str]:
    """The event, the place of the step and what it asks: `playbook:E-7:1:decide`, or `failure_gap:E-7`."""
    if key.startswith("failure_gap:"):
        return int(key.partition(":E-")[2]), "end", "gap"
    _, event, place, what = key.split(":", 3)
    return int(event[2:]), place, what.partition(":")[0]


def _statement(row: Mapping[str, Any]) -> Statement:
    body = json.loads(row["body"])
    return f"{row['source']}:{body['fingerprint']}", row["phase"], body.get("starts_at")


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.timestamp()) * SECOND + at.microsecond
