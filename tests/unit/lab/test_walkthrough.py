"""The walk-through: all as expected, the same each time, with no clock, network or sleep; and it can fail."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetwarden.cli.application import app
from fleetwarden.lab import walkthrough
from fleetwarden.lab.walkthrough import walk


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the walk-through asked the machine")


@pytest.mark.req("ORC-6", "ORC-2", "ORC-5", "ASC-6")
def test_every_step_is_as_expected_twice_the_same_and_without_sleep_or_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket.socket, "connect", never)
    monkeypatch.setattr(time, "sleep", never)
    both = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        both.append(walk(folder))
    assert [step for step in both[0] if not step.ok] == []
    assert both[0] == both[1]
    assert len({step.chapter for step in both[0]}) == 5
    told = {step.what: step.seen for step in both[0]}
    assert told["each at 90: 3 × 90 / 60 = 4.5, which is 5, and max says 4"] == "4"
    assert told["with one it stays"] != told["without a window it falls and comes back"]


@pytest.mark.req("ORC-6")
def test_a_product_that_does_something_else_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walkthrough, "REGISTRY", walkthrough.REGISTRY.replace("max: 4", "max: 9"))
    ended = CliRunner().invoke(app, ["lab", "--json"])
    assert ended.exit_code == 1
    body = json.loads(ended.output)
    assert body["ok"] is False
    [first, *_] = [one for one in body["steps"] if not one["ok"]]
    assert (first["expected"], first["seen"]) == ("4", "5")
