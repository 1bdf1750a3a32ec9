"""`policy check`: findings as FILE:LINE, by the rules by which a plane would take the file."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Shell

BROKEN = """\
version: 1
rules:
  - {kind: restart_service, target: "*", tier: auto, maintenance_window: "25:99-30:00"}
  - {kind: stop_service, target: "*", teir: auto}
"""
SHADOWED = """\
version: 1
rules:
  - {kind: restart_service, target: web, tier: approval_required}
  - {kind: restart_service, target: web, tier: auto}
"""
SCALED = """\
version: 1
services:
  - {name: web, process: {command: [sleep, "9"]}, scaling: {min: 1, max: 6, signal: jobs, target: 10, cooldown_s: 60}}
"""
TIGHT = """\
version: 1
rules:
  - {kind: scale_service, target: web, tier: auto, rate_limit: {max: 3, window_s: 3600}}
"""


@pytest.mark.req("POL-10", "POL-14")
def test_every_problem_is_named_with_its_line(shell: Shell) -> None:
    (shell.folder / "policy.yml").write_text(BROKEN)
    ran = shell("policy", "check", "policy.yml")
    assert ran.code == 2
    first, second, last = ran.out.splitlines()
    assert first.startswith("policy.yml:3  ")
    assert "25:99" in first
    assert second.startswith("policy.yml:4  ")
    assert "did you mean 'tier'?" in second
    assert last == "2 problems"


@pytest.mark.req("POL-10")
def test_what_is_legal_and_probably_not_meant_is_a_warning(shell: Shell) -> None:
    (shell.folder / "policy.yml").write_text(SHADOWED)
    ran = shell("policy", "check", "policy.yml")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("policy.yml:4  warning: this rule never decides: policy.yml:3")
    assert ran.out.splitlines()[-1] == "policy.yml is valid: 2 rules, 1 warning"


@pytest.mark.req("POL-5", "POL-10")
def test_a_limit_that_would_throttle_a_scaling_block_beside_it_is_a_warning(shell: Shell) -> None:
    (shell.folder / "fleet").mkdir()
    (shell.folder / "fleet" / "policy.yml").write_text(TIGHT)
    (shell.folder / "fleet" / "fleet.yml").write_text(SCALED)
    for words in (["policy", "check"], ["policy", "check", "fleet"], ["policy", "check", "fleet/policy.yml"]):
        ran = shell(*words)
        assert ran.code == 0
        assert "fleet/policy.yml:3  warning: rate_limit 3 per 3600 s allows fewer steps" in ran.out


def test_json_holds_the_same(shell: Shell) -> None:
    (shell.folder / "policy.yml").write_text(BROKEN)
    ran = shell("policy", "check", "policy.yml", "--json")
    assert ran.code == 2
    told = json.loads(ran.out)
    assert (told["file"], told["valid"], told["rules"], told["in_force"]) == ("policy.yml", False, None, None)
    assert [one["line"] for one in told["problems"]] == [3, 4]
    (shell.folder / "policy.yml").write_text(SHADOWED)
    told = json.loads(shell("policy", "check", "policy.yml", "--json").out)
    assert told["valid"]
    assert told["rules"] == 2
    assert told["digest"].startswith("sha256:")
    assert told["warnings"][0]["line"] == 4


def test_a_folder_without_a_policy_says_what_holds(shell: Shell) -> None:
    (shell.folder / "fleet").mkdir()
    ran = shell("policy", "check")
    assert (ran.code, ran.out) == (0, "fleet has no policy.yml: the shipped default holds, everything asks first\n")


def test_the_policy_that_the_settings_name_is_the_one(shell: Shell) -> None:
    (shell.folder / "fleet").mkdir()
    (shell.folder / "other.yml").write_text(BROKEN)
    shell.setenv("ACTION_POLICY_PATH", "other.yml")
    assert shell("policy", "check").out.startswith("other.yml:3  ")


@pytest.mark.parametrize("words", [["policy", "check", "nowhere.yml"], ["policy", "check", "--config", "nowhere"]])
def test_what_does_not_exist_is_2(shell: Shell, words: list[str]) -> None:
    ran = shell(*words)
    assert ran.code == 2
    assert "does not exist" in ran.err


def test_a_file_that_is_no_yaml_is_a_finding(shell: Shell) -> None:
    (shell.folder / "policy.yml").write_bytes(b"\xff\xfe\x00")
    ran = shell("policy", "check", "policy.yml")
    assert ran.code == 2
    assert ran.out.startswith("policy.yml")
    assert "Traceback" not in ran.err
