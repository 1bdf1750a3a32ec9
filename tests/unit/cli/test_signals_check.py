"""`signals check` reads all pages, or one that is asked for, and says by its exit whether every signal answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from fleetwarden.cli.calling import Call
from tests.unit.cli.conftest import Shell


class Pages:
    """A plane whose list of signals has pages of two."""

    def __init__(self, faults: Mapping[str, str] | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.faults = faults or {}

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        self.asked.append(given)
        assert path == "/signals"
        names = ["a", "b", "c", "d", "e"]
        first = int(str(given.get("cursor", "0")))
        last = first + int(str(given.get("limit", 2)))
        items = [self._item(name) for name in names[first:last]]
        return {"items": items, "next": str(last) if last < len(names) else None, "snapshot": "s"}

    def _item(self, name: str) -> dict[str, Any]:
        fault = self.faults.get(name)
        value = None if fault else 1.0
        return {"signal": "q", "service": name, "value": value, "unit": "jobs", "fault": fault, "reason": "so"}


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Pages:
    made = Pages()
    monkeypatch.setattr(Call, "plane", lambda _: made)
    return made


@pytest.mark.req("SIG-3", "SGP-8")
def test_every_page_is_read_and_shown_as_one(plane: Pages, shell: Shell) -> None:
    ran = shell("signals", "check", "--json")
    body = json.loads(ran.out)
    assert ran.code == 0
    assert ([one["service"] for one in body["items"]], body["next"]) == (["a", "b", "c", "d", "e"], None)
    assert plane.asked == [{}, {"cursor": "2"}, {"cursor": "4"}]


@pytest.mark.req("SIG-3")
def test_one_page_says_how_to_see_the_next(plane: Pages, shell: Shell) -> None:
    first = shell("signals", "check", "--limit", "3")
    assert "signals check --limit 3 --cursor 3" in first.out
    second = shell("signals", "check", "--limit", "3", "--cursor", "3")
    assert "more" not in second.out
    assert (first.code, second.code) == (0, 0)
    assert plane.asked == [{"limit": 3}, {"limit": 3, "cursor": "3"}]


@pytest.mark.req("SIG-5")
def test_a_signal_without_a_value_on_a_later_page_is_no_zero_and_ends_with_1(plane: Pages, shell: Shell) -> None:
    plane.faults = {"e": "missing"}
    ran = shell("signals", "check")
    assert ran.code == 1
    assert "no data" in ran.out
