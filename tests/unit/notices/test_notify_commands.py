"""`notify check` on a terminal: what is wrong, where, and who would be told what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetwarden.app.doctor import examine_here
from fleetwarden.cli.application import app

GOOD = "targets: {oncall: {url_file: oncall.url}}\nroutes: [{group: web, severity: [critical, error], to: oncall}]\n"


def run(folder: Path, *words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["notify", "check", str(folder), *words])
    return found.exit_code, found.output


@pytest.mark.req("PLB-5")
def test_it_names_problems_with_their_lines_and_doubts(tmp_path: Path) -> None:
    assert run(tmp_path)[0] == 0
    (tmp_path / "notify.yml").write_text(GOOD)
    code, told = run(tmp_path)
    assert code == 0
    assert "notify.yml:1  target oncall: there is no file oncall.url" in told
    assert "1 target and 1 route can be used\n  critical or error of group web → oncall" in told
    (tmp_path / "oncall.url").write_text("json://127.0.0.1:1")
    assert json.loads(run(tmp_path, "--json")[1])["warnings"] == []
    (tmp_path / "notify.yml").write_text(GOOD + "route: []\n")
    code, told = run(tmp_path)
    assert (code, told.splitlines()[0]) == (2, "notify.yml:3  unknown key 'route' (did you mean 'routes'?)")


@pytest.mark.req("PLB-5", "RUN-14")
def test_doctor_names_the_same_and_no_address(tmp_path: Path) -> None:
    (tmp_path / "notify.yml").write_text("targets: {a: {url: 'json://u:CANARY1234@h'}}\nroutes: [{to: b}]\n")
    findings = examine_here(tmp_path, {"FLEET_DATA_DIR": str(tmp_path)}).findings
    [found] = [one for one in findings if one.check == "notify"]
    assert found.told == 'notify.yml:2  routes[0].to: "b" is no target of this file'
    assert "CANARY1234" not in "".join(one.told for one in findings)
