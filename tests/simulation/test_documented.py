"""The page on the simulation names every planted fault."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.__main__ import ALL

PROTOCOL = "## The rules of the protocol"
RULES = {
    "cas_put",
    "recheck",
    "outbox_first",
    "key_once",
    "fence_commit1",
    "fence_commit2",
    "unknown_is_pending",
    "newer_evidence",
    "digest",
    "close_with_outcome",
    "budget_txn",
    "recheck_in_txn",
    "one_open_per_target",
    "no_supersede_open",
    "cooldown_at_commit1",
    "start_deadline",
    "negative_after_horizon",
    "operator_after_horizon",
    "hold_until_horizon",
    "stamp_at_read",
    "cooldown_stamp",
    "end_closes",
    "approval_guard",
    "refusal_move",
    "own_orphans",
    "adoption",
    "decide_with_put",
}  # of the model that the protocol was searched with
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "simulation.md"


def test_the_page_names_every_planted_fault_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Would it notice?")[2].partition(PROTOCOL)[0]
    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted(fault.__name__ for fault in ALL)


def test_each_rule_of_the_protocol_has_a_planted_fault_that_there_is() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(PROTOCOL)[2]
    rows = re.findall(r"^\| `(\w+)`: .+? \| (.+) \|$", table, re.MULTILINE)
    rules = [rule for rule, _ in rows]
    assert sorted(rules) == sorted(RULES)
    named = {name for _, faults in rows for name in re.findall(r"`(\w+)`", faults)}
    assert all(re.search(r"`\w+`", faults) for _, faults in rows)
    assert named <= {fault.__name__ for fault in ALL}
