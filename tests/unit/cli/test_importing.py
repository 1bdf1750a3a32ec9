"""`import hpa` at a terminal: a block to be copied, JSON for programs, a refusal that says where."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest

from tests.unit.cli.conftest import Shell
from tests.unit.scaling.test_hpa_import import SHOP


@pytest.mark.req("ASC-15")
def test_a_file_or_standard_input_becomes_a_block(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "hpa.yml").write_text(SHOP, encoding="utf-8")
    told = shell("import", "hpa", "hpa.yml")
    assert (told.code, told.err) == (0, "")
    assert "scaling:\n  min: 2\n  max: 10\n" in told.out
    assert "\nsignals:\n" in told.out
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SHOP.encode())))
    piped = shell("import", "hpa", "-", "--json")
    body = json.loads(piped.out)
    assert (body["service"], body["scaling"]["max"]) == ("shop", 10)
    assert body["signals"]["cpu"]["aggregation"] == "per_replica"


@pytest.mark.req("ASC-15")
def test_what_cannot_move_over_ends_with_2_and_prints_no_block(shell: Shell) -> None:
    (shell.folder / "hpa.yml").write_text(SHOP.replace("type: Pods", "type: Podz"), encoding="utf-8")
    told = shell("import", "hpa", "hpa.yml")
    assert (told.code, told.out) == (2, "")
    assert "hpa.yml:11" in told.err
    missing = shell("import", "hpa", "nowhere.yml")
    assert missing.code == 2
    assert "kubectl get hpa" in missing.err
