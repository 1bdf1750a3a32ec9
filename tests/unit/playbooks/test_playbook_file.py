"""`playbooks.yml`: what it may say, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.adapters.files.playbooks import PlaybooksFile
from fleetwarden.app.playbooks import register_playbook, registered, reset
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.playbook_file import read_playbooks_file
from fleetwarden.domain.playbooks import PlaybookEntry, PlaybookStep, StepKind, When

GOOD = """\
version: 1
playbooks:
  - name: careful-restart
    on: ["alertmanager:critical", grafana]
    class: down
    services: ["web*"]
    steps:
      - confirm
      - wait: 30
      - confirm
      - decide: restart_service
      - act
      - watch
      - notify: {text: it was restarted, when: ok}
      - escalate: {text: it did not help, action: restart_service}
"""


def read(text: str) -> tuple[PlaybookEntry, ...]:
    return read_playbooks_file(yaml_tree.parse(text, "playbooks.yml"))


@pytest.mark.req("PLB-4")
def test_a_playbook_is_a_list_of_steps() -> None:
    [one] = read(GOOD)
    assert (one.name, one.on, one.class_, one.services) == (
        "careful-restart", ("alertmanager:critical", "grafana"), "down", ("web*",),
    )  # fmt: skip
    assert [step.kind.value for step in one.steps] == [
        "confirm", "wait", "confirm", "decide", "act", "watch", "notify", "escalate",
    ]  # fmt: skip
    assert one.steps[1].wait_s == 30
    assert one.steps[6].when is When.OK
    assert one.steps[7] == PlaybookStep(kind=StepKind.ESCALATE, text="it did not help", when=When.FAILED)
    assert one.where == "playbooks.yml:3"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("playbooks: {a: 1}", 1, "a list is needed"),
        ("- a", 1, "a mapping of version and playbooks is needed"),
        ("version: 2", 1, "reads version: 1"),
        ("playbuks: []", 1, "did you mean 'playbooks'?"),
        ("playbooks:\n- {on: [a], steps: [confirm]}", 2, "name: is missing"),
        ("playbooks:\n- {name: a, steps: [confirm]}", 2, "on: is missing"),
        ("playbooks:\n- {name: a, on: [x]}", 2, "steps: is missing"),
        ("playbooks:\n- {name: service_down, on: [x], steps: [confirm]}", 2, "is a shipped playbook"),
        ("playbooks:\n- {name: A!, on: [x], steps: [confirm]}", 2, "is none"),
        ("playbooks:\n- {name: a, on: ['x:warning'], steps: [confirm]}", 2, "only critical and error"),
        ("playbooks:\n- {name: a, on: ['X y'], steps: [confirm]}", 2, "is no key"),
        ("playbooks:\n- {name: a, on: [x], class: up, steps: [confirm]}", 2, "class"),
        ("playbooks:\n- {name: a, on: [x], steps: []}", 2, "at least one step"),
        ("playbooks:\n- {name: a, on: [x], steps: [act]}", 2, "a decide step has to stand before it"),
        ("playbooks:\n- {name: a, on: [x], steps: [decide, watch]}", 2, "an act step has to stand before it"),
        ("playbooks:\n- {name: a, on: [x], steps: [decide, decide]}", 2, "stands here twice"),
        ("playbooks:\n- {name: a, on: [x], steps: [{decide: stop_service}]}", 2, "restart_service"),
        ("playbooks:\n- {name: a, on: [x], steps: [{wait: 0}]}", 2, "wait"),
        ("playbooks:\n- {name: a, on: [x], steps: [{wait: 4000}]}", 2, "wait"),
        ("playbooks:\n- {name: a, on: [x], steps: [{run: rm -rf}]}", 2, "step"),
        ("playbooks:\n- {name: a, on: [x], steps: [{confirm: 1}]}", 2, "takes nothing"),
        ("playbooks:\n- {name: a, on: [x], steps: [{escalate: {action: stop_service}}]}", 2, "mean 'restart_service'?"),
        ("playbooks:\n- {name: a, on: [x], services: ['[web'], steps: [confirm]}", 2, "'[' that is never closed"),
        ("playbooks:\n- {name: a, on: [x], steps: [{notify: hello}]}", 2, "a mapping such as"),
        (
            "playbooks:\n- {name: a, on: [x], steps: [confirm]}\n- {name: a, on: [x], steps: [confirm]}", 3,
            "stands here twice, first at playbooks.yml:2",
        ),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        read(text)
    assert any(one.line == line and words in one.reason for one in refused.value.problems), refused.value.problems


@pytest.mark.req("PLB-4", "REC-14")
def test_a_broken_file_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    file = tmp_path / "playbooks.yml"
    file.write_text(GOOD)
    kept = PlaybooksFile(tmp_path)
    assert [one.name for one in kept.current()] == ["careful-restart"]
    file.write_text("playbooks: 7\n")
    assert not kept.refresh()
    assert [one.name for one in kept.current()] == ["careful-restart"]
    assert "playbooks.yml:1" in str(kept.problems[0])
    file.unlink()
    assert kept.refresh()
    assert kept.current() == ()
    assert kept.problems == ()


@pytest.mark.req("PLB-4", "RUN-16")
def test_what_is_registered_is_checked_like_the_file() -> None:
    reset()
    try:
        register_playbook("mine", ["alertmanager"], [PlaybookStep(kind=StepKind.NOTIFY)])
        register_playbook("written", "grafana:error", lambda event, seen, log: PlaybookStep(kind=StepKind.NOTIFY))
        entries, written = registered()
        assert [one.name for one in entries] == ["mine", "written"]
        assert list(written) == ["written"]
        for name, on, steps, words in (
            ("mine", "x", [PlaybookStep(kind=StepKind.NOTIFY)], "registered already"),
            ("tell", "x", [PlaybookStep(kind=StepKind.NOTIFY)], "shipped"),
            ("b", "x:info", [PlaybookStep(kind=StepKind.NOTIFY)], "only critical and error"),
            ("c", [], [PlaybookStep(kind=StepKind.NOTIFY)], "no source"),
            ("d", "x", [], "0 steps"),
            ("e", "x", [PlaybookStep(kind=StepKind.ACT)], "a decide step has to"),
            ("f", "x", [PlaybookStep(kind=StepKind.DECIDE, action="stop_service")], "restart_service only"),
            ("g", "x", [PlaybookStep(kind=StepKind.WAIT)], "wait 0 s"),
            ("h", "x", [PlaybookStep(kind=StepKind.ESCALATE, action="stop_service")], "escalate stop_service"),
            ("i", "x", [PlaybookStep(kind=StepKind.CONFIRM, text="why")], "takes no text and no when"),
            ("j", "x", [PlaybookStep(kind=StepKind.CONFIRM, when=When.FAILED)], "takes no text and no when"),
            ("k", "x", [PlaybookStep(kind=StepKind.NOTIFY, action="stop_service")], "takes no action"),
        ):
            with pytest.raises(Misconfigured, match=words):
                register_playbook(name, on, steps)
        assert len(registered()[0]) == 2
    finally:
        reset()
