"""Parts that were installed beside us: found by their entry points, so that a plug-in is a pip install.

An entry point names something that is called without arguments and gives the part.  Only looking happens by itself:
an actuator acts when FLEET_ACTUATOR names it, a signal provider answers when FLEET_SIGNAL_PROVIDER names it, a playbook
answers events when FLEET_PLAYBOOKS names it, and a notifier is told what `notify.yml` routes to it.  A part that cannot
be loaded is named, with the package that brought it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import structlog

from fleetwarden.app.injection import Injected
from fleetwarden.domain.errors import FleetError, Misconfigured
from fleetwarden.ports.signals import SignalProvider
from fleetwarden.ports.system import Notifier

__all__ = [
    "ACTUATORS",
    "GROUPS",
    "NOTIFIERS",
    "OBSERVERS",
    "PLAYBOOKS",
    "SIGNAL_PROVIDERS",
    "Found",
    "found",
    "installed",
    "load",
    "notifier",
    "signal_provider",
    "with_installed",
]

log = structlog.get_logger(__name__)
ACTUATORS = "fleetwarden.actuators"
OBSERVERS = "fleetwarden.observers"
SIGNAL_PROVIDERS = "fleetwarden.signal_providers"
NOTIFIERS = "fleetwarden.notifiers"
PLAYBOOKS = "fleetwarden.playbooks"
# What a part of each group has to have; a signal provider is checked where every other one is, too.
GROUPS: dict[str, tuple[str, ...]] = {
    ACTUATORS: ("substrate", "kinds", "simulates", "lateness_s", "acknowledged_is_final", "refusal", "actuate"),
    OBSERVERS: ("name", "substrates", "observe"),
    SIGNAL_PROVIDERS: (),
    NOTIFIERS: ("name", "notify"),
    PLAYBOOKS: ("on", "playbook", "services"),
}


class Found:
    """One installed part: its name, the package that brought it, and how to get it."""

    def __init__(self, group: str, name: str, package: str, point: EntryPoint) -> None:
        self.group, self.name, self.package = group, name, package
        self._point = point

    def make(self) -> Any:
        """The part.  Raises Misconfigured, naming the package and why."""
        about = f"{self.group.removeprefix('fleetwarden.')} {self.name!r} of {self.package}"
        try:
            made = self._point.load()()
        except Exception as error:
            raise Misconfigured(
                f"{about} cannot be loaded: {type(error).__name__}: {error}",
                hint="correct or uninstall the package, then start again",
            ) from error
        lacking = [one for one in GROUPS[self.group] if not hasattr(made, one)]
        if lacking:
            raise Misconfigured(
                f"{about} cannot be used: it has no {', '.join(lacking)}",
                hint="the Protocols in fleetwarden.ports say what is needed",
            )
        return made


def found(group: str) -> Sequence[Found]:
    """What is installed of a group, by name.  Nothing is imported.  Of two of one name the first package's counts."""
    points = entry_points(group=group)
    every = [Found(group, one.name, one.dist.name if one.dist else "an unknown package", one) for one in points]
    by_name: dict[str, Found] = {}
    for one in sorted(every, key=lambda each: (each.name, each.package)):
        if one.name in by_name:
            log.warning("two packages bring a part of one name", part=one.name, used=by_name[one.name].package)
        by_name.setdefault(one.name, one)
    return list(by_name.values())


def installed(group: str) -> tuple[str, ...]:
    """The names that are installed of a group."""
    return tuple(one.name for one in found(group))


def load(group: str, name: str) -> Any:
    """The part of that name.  Raises Misconfigured: none is installed, or it cannot be used."""
    for one in found(group):
        if one.name == name:
            return one.make()
    known = ", ".join(installed(group)) or "none"
    raise Misconfigured(
        f"nothing that is installed brings {name!r} in {group} (installed: {known})",
        hint="pip install the package that has it, or correct the name",
    )


def notifier(name: str) -> Notifier:
    """The installed notifier of that name.  Raises Misconfigured."""
    made: Notifier = load(NOTIFIERS, name)
    return made


def signal_provider(name: str | None) -> SignalProvider | None:
    """The installed signal provider of that name; None without one.  Raises Misconfigured."""
    if name is None:
        return None
    made: SignalProvider = load(SIGNAL_PROVIDERS, name)
    return made


def with_installed(put: Injected, chosen: Sequence[str]) -> tuple[Injected, tuple[str, ...]]:
    """What was injected, with what is installed besides: the chosen actuators, and every observer; and warnings.

    What was injected outranks what is installed.  An observer that cannot be loaded is a warning, and its services stay
    unobserved; an actuator that was chosen and cannot be loaded raises Misconfigured.
    """
    for one in found(ACTUATORS):
        if one.name in chosen:
            made = one.make()
            put.actuators.setdefault(made.substrate, made)
    known, warnings = {one.name for one in put.observers}, list[str]()
    for one in found(OBSERVERS):
        try:
            seeing = one.make()
        except FleetError as error:
            warnings.append(str(error))
            continue
        if seeing.name not in known:
            put.observers.append(seeing)
    return put, tuple(warnings)
