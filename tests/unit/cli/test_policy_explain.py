"""`policy explain` and `policy test`: which rule decides and why, and a policy held against what is expected of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shell

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "test-a-policy.md"
POLICY = """\
version: 1
rules:
  - {kind: restart_service, target: "web-*", tier: auto, rate_limit: {max: 2, window_s: 1800},
     maintenance_window: "02:00-05:00"}
  - {kind: restart_service, target: "*", tier: forbidden}
  - {kind: "*", target: "web-1", group: web, tier: approval_required}
  - {kind: restart_service, target: "w*", tier: auto_notify, final: true}
"""
FLEET = """\
version: 1
groups: {web: {mode: live}}
services:
  - {name: web-1, group: web, process: {command: [sleep, "9"]}}
  - {name: web-2, process: {command: [sleep, "9"]}}
"""
CASES = """\
version: 1
now: 2026-12-02T03:00:00Z
cases:
  - name: a third restart within half an hour
    request: {kind: restart_service, target: web-2}
    ledger: [{ago_s: 60}, {ago_s: 120}]
    expect: {verdict: deny, code: rate, rule: "restart_service web-*"}
  - name: at night
    request: {kind: restart_service, target: web-2}
    ledger: [{ago_s: 60, target: other}, {ago_s: 60, verdict: deny}, {at: 2026-12-02T01:00:00Z}]
    expect: {verdict: allow_notify, source: "fleet/policy.yml:7"}
"""


@pytest.fixture
def folder(shell: Shell) -> Path:
    made = shell.folder / "fleet"
    made.mkdir()
    (made / "policy.yml").write_text(POLICY)
    (made / "fleet.yml").write_text(FLEET)
    return made


def considered(shell: Shell, *words: str) -> list[dict]:
    ran = shell("policy", "explain", *words, "--at", "2026-12-02T03:00:00Z", "--json")
    assert ran.code == 0, ran.err
    found: list[dict] = json.loads(ran.out)["considered"]
    return found


@pytest.mark.req("POL-10")
def test_every_matching_rule_is_told_the_deciding_one_first(shell: Shell, folder: Path) -> None:
    rules = considered(shell, "restart_service", "web-2")
    assert [(one["source"].rpartition("/")[2], one["role"], one["verdict"]) for one in rules] == [
        ("policy.yml:3", "decides", "allow"),
        ("policy.yml:7", "binds", "allow_notify"),
        ("policy.yml:5", "outranked", "deny"),
        ("shipped default", "outranked", "queue_approval"),
    ]
    assert rules[1]["why"] == "final, and stricter than the most specific rule: the answer is by this one"
    assert rules[2]["why"] == "fewer literal characters in its target"
    assert rules[0]["compared"] == "looser"  # the final rule makes it tell people
    assert rules[2]["compared"] == "stricter"
    limits = rules[0]["limits"]
    assert limits["rate_limit"]["source"].endswith("policy.yml:3")
    assert limits["blast_radius"] == {"value": {"max_targets": 3, "window_s": 3600}, "source": "shipped default"}


@pytest.mark.req("POL-10", "POL-5")
def test_the_group_comes_from_the_fleet_unless_it_is_given(shell: Shell, folder: Path) -> None:
    assert considered(shell, "restart_service", "web-1")[0]["source"].endswith("policy.yml:6")
    assert considered(shell, "restart_service", "web-1", "--group", "db")[0]["source"].endswith("policy.yml:3")


@pytest.mark.req("POL-10")
def test_the_screen_names_file_line_limits_and_what_the_others_say(shell: Shell, folder: Path) -> None:
    ran = shell("policy", "explain", "restart_service", "web-2", "--at", "2026-12-02T12:00:00Z")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[1].startswith("waits for approval: outside the maintenance window 02:00-05:00 UTC")
    assert any(re.match(r"1\. .*policy\.yml:3  restart_service web-\*, auto", line) for line in lines)
    assert "   rate_limit max 2, window_s 1800 (fleet/policy.yml:3)" in lines
    assert "   decides: the strongest source, and its most specific rule" in lines
    assert any(line.startswith("   stricter: would say deny, denied by fleet/policy.yml:5") for line in lines)
    assert lines[-1].startswith("Files only:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restart_service", "web-2", "--at", "noon"], "is no time"),
        (["scale_service", "web-2", "--param", "replicas"], "is not K=V"),
        (["restart_service", "web-2", "--policy", "nowhere.yml"], "does not exist"),
    ],
)
def test_what_cannot_be_understood_is_2(shell: Shell, folder: Path, words: list[str], said: str) -> None:
    ran = shell("policy", "explain", *words)
    assert (ran.code, said in ran.err) == (2, True)


@pytest.mark.req("POL-10", "POL-13")
def test_a_malformed_request_is_explained_as_denied(shell: Shell, folder: Path) -> None:
    ran = shell("policy", "explain", "scale_service", "web-2", "--param", "replicas=many")
    assert ran.code == 0
    assert "denied, the request is malformed: param 'replicas'" in ran.out


@pytest.mark.req("POL-10")
def test_an_invalid_policy_is_named_by_file_and_line(shell: Shell, folder: Path) -> None:
    (folder / "policy.yml").write_text("rules:\n  - {kind: x, tier: atuo}\n")
    (folder / "cases.yml").write_text(CASES)
    for words in (["explain", "x", "y"], ["test", "fleet/cases.yml"]):
        ran = shell("policy", *words)
        assert (ran.code, "policy.yml:2" in ran.err) == (2, True)


@pytest.mark.req("POL-10")
def test_cases_pass_or_are_named_with_their_line(shell: Shell, folder: Path) -> None:
    (folder / "cases.yml").write_text(CASES)
    ran = shell("policy", "test", "fleet/cases.yml")
    assert (ran.code, ran.out) == (0, "2 cases passed, by fleet/policy.yml\n")
    (folder / "cases.yml").write_text(CASES.replace("code: rate", "code: blast"))
    ran = shell("policy", "test", "fleet/cases.yml")
    assert ran.code == 1
    assert ran.out.startswith(
        "fleet/cases.yml:4  a third restart within half an hour: expected code blast; got code rate"
    )
    told = json.loads(shell("policy", "test", "fleet/cases.yml", "--json").out)
    assert [one["line"] for one in told["failed"]] == [4]


@pytest.mark.req("POL-10")
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("cases: []\n", 1, "at least one case"),
        ("casses: []\n", 1, "did you mean 'cases'?"),
        (CASES.replace("verdict: deny", "verdit: deny"), 7, "did you mean 'verdict'?"),
        (CASES.replace("verdict: deny", "verdict: denied"), 7, "verdict"),
        (CASES.replace('{verdict: deny, code: rate, rule: "restart_service web-*"}', "{}"), 7, "nothing is expected"),
        (CASES.replace("now: 2026-12-02T03:00:00Z", "version: 1"), 2, "stands here twice"),
        (CASES.replace("2026-12-02T03:00:00Z", "noon"), 2, "is no time"),
        (CASES.replace("ago_s: 120", "ago: 120"), 6, "did you mean 'ago_s'?"),
        (CASES.replace("ago_s: 120", "ago_s: 120, at: 2026-12-02T03:00:00Z"), 6, "either at, or ago_s"),
        (CASES.replace("kind: restart_service, target: web-2", "kind: restart_service"), 5, "it has no target"),
        (CASES + "    overrides: [{kind: x, tier: auto}]\n", 12, "with an id"),
        (CASES + "    overrides: [{id: o, kind: x, tier: atuo}]\n", 12, "tier"),
    ],
    ids=str,
)
def test_a_bad_cases_file_is_2_with_the_line(shell: Shell, folder: Path, text: str, line: int, said: str) -> None:
    (folder / "cases.yml").write_text(text)
    ran = shell("policy", "test", "fleet/cases.yml")
    assert ran.code == 2
    assert [one for one in ran.err.splitlines() if f"cases.yml:{line} " in one and said in one], ran.err


@pytest.mark.req("POL-10", "POL-4")
def test_a_case_may_have_overrides_a_freeze_and_a_fleet_of_its_own(shell: Shell, folder: Path) -> None:
    (folder / "cases.yml").write_text("""\
now: 2026-12-02T03:00:00Z
fleet: {web-1: {group: other}}
cases:
  - request: {kind: restart_service, target: web-1}
    expect: {verdict: allow_notify}
  - request: {kind: restart_service, target: web-1}
    overrides: [{id: off, kind: "*", tier: forbidden}, {id: gone, kind: "*", tier: auto, active: false}]
    expect: {verdict: deny, source: "override:off"}
  - request: {kind: restart_service, target: web-1}
    freeze: a bad night
    expect: {verdict: deny, code: freeze}
""")
    ran = shell("policy", "test", "fleet/cases.yml")
    assert (ran.code, ran.out) == (0, "3 cases passed, by fleet/policy.yml\n")


@pytest.mark.req("POL-10")
def test_the_example_of_the_page_is_true(shell: Shell) -> None:
    blocks = re.findall(r"^```yaml\n(# (\S+)\n.*?)^```", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for _, name in blocks] == ["policy.yml", "policy-cases.yml"]
    (shell.folder / "fleet").mkdir()
    for text, name in blocks:
        (shell.folder / "fleet" / name).write_text(text)
    ran = shell("policy", "test", "fleet/policy-cases.yml")
    assert (ran.code, ran.out) == (0, "5 cases passed, by fleet/policy.yml\n")
