"""`playbooks.yml`: a deployment's own playbooks, each a fixed list of the same steps that the shipped ones have.

Strict: one finding refuses the whole file, each with its line, because a playbook that is half understood would act
half as meant.  Nothing is run from it: a step names what is done, never a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.events import EventClass, Severity
from fleetwarden.domain.globs import Glob
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, text, texts, word
from fleetwarden.domain.playbooks import (
    BUILT_IN,
    ESCALATE_KINDS,
    End,
    Entry,
    PlaybookEntry,
    PlaybookStep,
    StepKind,
    When,
)

__all__ = [
    "PLAYBOOKS_MAX",
    "STEPS_MAX",
    "WAIT_MAX_S",
    "asked_problem",
    "key_problem",
    "read_playbooks_file",
    "steps_problem",
]

PLAYBOOKS_MAX = 100
STEPS_MAX = 20
TAKEN_MAX = 100  # steps of a playbook in Python, which makes them up as it goes
WAIT_MAX_S = 3600.0
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,63}(:[a-z]+)?")
_STATUS = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PLAIN = (StepKind.CONFIRM, StepKind.DECIDE, StepKind.ACT, StepKind.WATCH, StepKind.NOTIFY, StepKind.ESCALATE)
_TOLD = (StepKind.NOTIFY, StepKind.ESCALATE)
_AN = {StepKind.DECIDE: "a decide", StepKind.ACT: "an act"}
_NEEDS = {StepKind.ACT: StepKind.DECIDE, StepKind.WATCH: StepKind.ACT}


def read_playbooks_file(node: Node) -> tuple[PlaybookEntry, ...]:
    """The playbooks in the order of the file.  Raises Misconfigured naming every problem with its line."""
    found = Findings()
    if not node.mapping:
        found.problem(node, f"{quoted(node)} is {node.shape}, a mapping of version and playbooks is needed")
        found.raise_if_any(f"{node.file} cannot be used")
    keys = found.keys(node, ("version", "playbooks"))
    version = keys.get("version")
    if version is not None and (type(version.value) is not int or version.value != 1):
        found.problem(version, f"version: {quoted(version)} is unknown, this release reads version: 1")
    entries: dict[str, PlaybookEntry] = {}
    listed = keys.get("playbooks")
    if listed is not None and listed.value is not None:
        if not listed.is_list:
            found.problem(listed, f"playbooks: {quoted(listed)} is {listed.shape}, a list is needed")
        else:
            if len(listed.items()) > PLAYBOOKS_MAX:
                found.problem(listed, f"playbooks: {len(listed.items())} entries, at most {PLAYBOOKS_MAX} are kept")
            for one in listed.items():
                _entry(found, one, entries)
    found.raise_if_any(f"{node.file} cannot be used")
    return tuple(entries.values())


def _entry(found: Findings, node: Node, entries: dict[str, PlaybookEntry]) -> None:
    if not node.mapping:
        found.problem(
            node, f"{quoted(node)} is {node.shape}, a mapping such as {{name: …, on: […], steps: […]}} is needed"
        )
        return
    keys = found.keys(node, ("name", "on", "class", "services", "steps"))
    for needed in ("name", "on", "steps"):
        if needed not in keys:
            found.problem(node, f"{needed}: is missing")
    name = text(found, "name", keys["name"]) if "name" in keys else None
    if name is not None and not _NAME.fullmatch(name):
        found.problem(keys["name"], f"name: {name!r} is none: a letter, then letters, digits, '_' or '-', at most 64")
    elif name in BUILT_IN:
        found.problem(keys["name"], f"name: {name!r} is a shipped playbook: take another name")
    elif name in entries:
        found.problem(keys["name"], f"playbook {name!r} stands here twice, first at {entries[str(name)].where}")
    on = texts(found, "on", keys["on"]) if "on" in keys else None
    for one in on or ():
        if problem := key_problem(one):
            found.problem(keys["on"], f"on: {problem}")
    kind = word(found, "class", keys["class"], [one.value for one in EventClass]) if "class" in keys else ""
    services = texts(found, "services", keys["services"]) if "services" in keys else ()
    for one in services or ():
        if Glob(one).unclosed:
            found.problem(keys["services"], f"services: {one!r} has a '[' that is never closed")
    steps = _steps(found, keys["steps"]) if "steps" in keys else ()
    if name and on and kind is not None and services is not None and name not in entries:
        entries[name] = PlaybookEntry(
            name=name, on=on, class_=kind, services=services, steps=steps, where=f"{node.file}:{node.line}"
        )


def key_problem(key: str) -> str | None:
    """Why this is no key of a playbook: `source` or `source:severity`."""
    if not _KEY.fullmatch(key):
        return f"{key!r} is no key: a source such as alertmanager, or a source and a severity: alertmanager:critical"
    _, _, severity = key.partition(":")
    if severity and severity not in (Severity.CRITICAL, Severity.ERROR):
        return f"{key!r}: only critical and error events go beyond the default playbook"
    return None


def _steps(found: Findings, node: Node) -> tuple[PlaybookStep, ...]:
    if not node.is_list or not node.items():
        found.problem(node, f"steps: {quoted(node)} is {node.shape}, a list of at least one step is needed")
        return ()
    if len(node.items()) > STEPS_MAX:
        found.problem(node, f"steps: {len(node.items())} steps, at most {STEPS_MAX} are taken")
        return ()
    made = [(one, step) for one in node.items() if (step := _step(found, one)) is not None]
    known: set[StepKind] = set()
    for one, step in made:
        if (before := _NEEDS.get(step.kind)) is not None and before not in known:
            found.problem(one, f"{step.kind}: {_AN[before]} step has to stand before it")
        if step.kind in known and step.kind in (StepKind.DECIDE, StepKind.ACT, StepKind.WATCH):
            found.problem(one, f"{step.kind}: stands here twice; a playbook asks for one action")
        known.add(step.kind)
    return tuple(step for _, step in made)


def steps_problem(steps: tuple[PlaybookStep, ...]) -> str | None:
    """What is wrong with steps that are given in Python, in the words of the file's rules; None if nothing is."""
    known: set[StepKind] = set()
    if not 1 <= len(steps) <= STEPS_MAX:
        return f"{len(steps)} steps: a playbook has 1 to {STEPS_MAX}"
    for step in steps:
        if (before := _NEEDS.get(step.kind)) is not None and before not in known:
            return f"{step.kind}: {_AN[before]} step has to stand before it"
        if step.kind in known and step.kind in (StepKind.DECIDE, StepKind.ACT, StepKind.WATCH):
            return f"{step.kind} stands there twice: a playbook asks for one action"
        if problem := _step_problem(step):
            return problem
        known.add(step.kind)
    return None


def _step_problem(step: PlaybookStep) -> str | None:
    """What is wrong with one step, whatever stands before it."""
    if step.kind is StepKind.DECIDE and step.action != Kind.RESTART:
        return f"decide {step.action}: a playbook may ask for {Kind.RESTART} only"
    if step.kind is StepKind.ESCALATE and step.action not in ESCALATE_KINDS:
        return f"escalate {step.action}: one of {', '.join(ESCALATE_KINDS)}"
    if not 0 <= step.wait_s <= WAIT_MAX_S or (step.kind is StepKind.WAIT) != (step.wait_s > 0):
        return f"wait {step.wait_s:g} s: above 0 and at most {WAIT_MAX_S:g} s, and for wait steps only"
    if step.kind not in _TOLD and (step.text or step.when is not When.ALWAYS):
        return f"{step.kind} takes no text and no when: only notify and escalate do"
    if step.kind not in (StepKind.DECIDE, StepKind.ESCALATE) and step.action != Kind.RESTART:
        return f"{step.kind} asks for nothing, so it takes no action"
    return None


def asked_problem(asked: Any, taken: Sequence[Entry]) -> str | None:
    """What is wrong with what a playbook in Python asks for next, after the steps that it has `taken`."""
    if isinstance(asked, End):
        status, reason = (str(one) if isinstance(one, str) else "" for one in msgspec.structs.astuple(asked))
        known = _STATUS.fullmatch(status) is not None and status != "running" and reason == asked.reason
        return None if known else "ends with a status that is no word of its own, or a reason that is no text"
    if not isinstance(asked, PlaybookStep):
        return f"returned {type(asked).__name__}, and not a PlaybookStep or an End"
    if len(taken) >= TAKEN_MAX:
        return f"has taken {TAKEN_MAX} steps and asks for more"
    once = (StepKind.DECIDE, StepKind.ACT, StepKind.WATCH)
    if asked.kind in once and any(one.get("kind") == asked.kind for one in taken):
        return f"asks to {asked.kind} twice: a playbook asks for one action"
    return _step_problem(asked)


def _step(found: Findings, node: Node) -> PlaybookStep | None:
    """`confirm`, or `{wait: 30}`, or `{notify: {text: …, when: failed}}`."""
    if isinstance(node.value, str):
        kind = word(found, "step", node, [one.value for one in _PLAIN])
        return None if kind is None else _plain(StepKind(kind))
    if not node.mapping or len(node.pairs()) != 1:
        found.problem(
            node, f"{quoted(node)} is {node.shape}: a step is a word, or a mapping of one word to its details"
        )
        return None
    [(key, value)] = node.pairs()
    kind = word(found, "step", key, [one.value for one in StepKind])
    if kind is None:
        return None
    step = _plain(StepKind(kind))
    if step.kind is StepKind.WAIT:
        wait = number(found, "wait", value, 0.1, WAIT_MAX_S)
        return None if wait is None else PlaybookStep(kind=step.kind, wait_s=wait)
    if step.kind is StepKind.DECIDE:
        action = word(found, "decide", value, [Kind.RESTART.value])
        return None if action is None else PlaybookStep(kind=step.kind, action=action)
    if step.kind not in _TOLD:
        found.problem(value, f"{kind}: takes nothing, write it as a word")
        return None
    return _told(found, step, value)


def _plain(kind: StepKind) -> PlaybookStep:
    """A step as a word alone: an escalation is for what failed before it."""
    return PlaybookStep(kind=kind, when=When.FAILED if kind is StepKind.ESCALATE else When.ALWAYS)


def _told(found: Findings, step: PlaybookStep, node: Node) -> PlaybookStep | None:
    name = step.kind.value
    if not node.mapping:
        found.problem(
            node, f"{name}: {quoted(node)} is {node.shape}, a mapping such as {{text: …, when: failed}} is needed"
        )
        return None
    keys: Mapping[str, Node] = found.keys(node, ("text", "when", *(("action",) if name == StepKind.ESCALATE else ())))
    said = text(found, f"{name}.text", keys["text"], longest=500) if "text" in keys else ""
    when = word(found, f"{name}.when", keys["when"], [one.value for one in When]) if "when" in keys else step.when
    kinds = [one.value for one in ESCALATE_KINDS]
    action = word(found, "escalate.action", keys["action"], kinds) if "action" in keys else Kind.RESTART
    if said is None or when is None or action is None:
        return None
    return PlaybookStep(kind=step.kind, action=str(action), text=said, when=When(when))
