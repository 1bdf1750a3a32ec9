"""The page on the simulation names every planted fault."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.__main__ import ALL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "simulation.md"


def test_the_page_names_every_planted_fault_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Would it notice?")[2]
    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == sorted(fault.__name__ for fault in ALL)
