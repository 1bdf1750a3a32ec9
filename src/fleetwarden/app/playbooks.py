"""Putting the playbooks together: what answers events, the steps it may take, and what people ask about it.

`register_playbook` is for deployments that have a line of Python of their own; `playbooks.yml` for everybody else.
Nothing is decided here, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

import msgspec

from fleetwarden.adapters.files.playbooks import PLAYBOOKS, PlaybooksFile
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.parts import Parts
from fleetwarden.controllers.playbook_steps import PlaybookSteps
from fleetwarden.controllers.triage import TRIAGE, Triage
from fleetwarden.controllers.worker import Handler
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.domain.playbook_file import key_problem, steps_problem
from fleetwarden.domain.playbooks import BUILT_IN, Playbook, PlaybookEntry, PlaybookStep

__all__ = ["Playbooks", "register_playbook", "registered", "reset"]

_lock = Lock()
_entries: list[PlaybookEntry] = []
_written: dict[str, Playbook] = {}


def register_playbook(
    name: str, on: str | Sequence[str], playbook: Playbook | Sequence[PlaybookStep], *, services: Sequence[str] = ()
) -> None:
    """Answer critical and error events with a playbook of your own, in every plane that this process builds after it.

    `on`: `source:severity` or a source, one or several; the default playbook runs first all the same.  `playbook`: a
    list of steps, or a function of the stored event, what was last seen of its service (None: nothing) and what this
    playbook did so far, which returns the next step or `End`; it must be pure, since it is asked again after a crash.
    `services`: globs of names, none for all.  Of several that answer an event the first registered one does, and all of
    them come before `playbooks.yml`.  Raises Misconfigured.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    problems = [problem for key in keys if (problem := key_problem(key))]
    if not keys:
        problems.append("on names no source")
    if name in BUILT_IN:
        problems.append(f"{name!r} is a shipped playbook: take another name")
    steps = () if callable(playbook) else tuple(playbook)
    if not callable(playbook) and (wrong := steps_problem(steps)):
        problems.append(wrong)
    if problems:
        raise Misconfigured(f"the playbook {name} cannot be registered: {'; '.join(problems)}")
    with _lock:
        if any(one.name == name for one in _entries):
            raise Misconfigured(f"a playbook {name} is registered already", hint="take another name")
        _entries.append(PlaybookEntry(name=name, on=keys, services=tuple(services), steps=steps, where="registered"))
        if callable(playbook):
            _written[name] = playbook


def registered() -> tuple[tuple[PlaybookEntry, ...], Mapping[str, Playbook]]:
    """What was registered until now."""
    with _lock:
        return tuple(_entries), dict(_written)


def reset() -> None:
    """Forget what was registered: for tests."""
    with _lock:
        _entries.clear()
        _written.clear()


class Playbooks:
    """The playbooks of one plane."""

    def __init__(self, parts: Parts) -> None:
        self._put, self._written = registered()
        self.file = PlaybooksFile(parts.settings.config_dir)
        steps = PlaybookSteps(
            parts.store,
            parts.configuration,
            parts.sightings,
            parts.gate,
            parts.restraint,
            parts.refusal,
            acting=parts.acting,
            unready=parts.readiness.of,
        )
        triage = Triage(
            parts.store,
            parts.configuration,
            parts.gate,
            steps,
            entries=self.entries,
            written=lambda: self._written,
        )
        self._handler = triage.handle

    def entries(self) -> Sequence[PlaybookEntry]:
        """This deployment's own playbooks, in the order in which they are asked."""
        return (*self._put, *self.file.current())

    def handlers(self) -> Mapping[str, Handler]:
        """Who does a step, by the kind of work."""
        return {TRIAGE: self._handler}

    def warnings(self) -> list[str]:
        """What an operator should know: a newer file that is not in force."""
        return [f"{PLAYBOOKS} is rejected, the last good one stays in force: {one}" for one in self.file.problems]

    def listed(self, caller: Caller) -> dict[str, JsonValue]:
        """`{items: [{name, on, class, services, steps, where}], problems}`: this deployment's, then shipped ones."""
        require(caller, Role.VIEWER)
        items: list[JsonValue] = [
            {
                "id": one.name,
                "name": one.name,
                "on": list(one.on),
                "class": one.class_ or None,
                "services": list(one.services),
                "steps": msgspec.to_builtins(one.steps),
                "where": one.where,
            }
            for one in self.entries()
        ]
        shipped: list[JsonValue] = [
            {"id": name, "name": name, "on": [], "class": None, "services": [], "steps": [], "where": "shipped"}
            for name in BUILT_IN
        ]
        return {"items": [*items, *shipped], "problems": [str(one) for one in self.file.problems]}
