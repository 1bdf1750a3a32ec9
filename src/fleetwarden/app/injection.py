"""What a deployment puts in by import, before a plane is built.

The constructor of `Plane` is the real interface; this is for deployments whose entry point is the command line and that
have a line of Python of their own.  It holds what was set for this process and nothing else.
"""

from __future__ import annotations

import time
from threading import Lock

import structlog

from fleetwarden.adapters.notify import JournalNotifier
from fleetwarden.adapters.signal_sources.one_by_one import as_provider
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.ports.actuation import FleetActuator
from fleetwarden.ports.observation import FleetObserver
from fleetwarden.ports.signals import ScalingSignalProvider, SignalProvider
from fleetwarden.ports.system import Notice, Notifier

__all__ = [
    "Injected",
    "injected",
    "readable",
    "reset",
    "send_notification",
    "set_default_notifier",
    "set_fleet_actuator",
    "set_fleet_observer",
    "set_scaling_signal_provider",
]


log = structlog.get_logger(__name__)


class Injected:
    """What was set: actuators by substrate, observers, the provider of scaling signals (None: what the settings name),
    and the notifier (None: the journal alone)."""

    def __init__(self) -> None:
        self.actuators: dict[str, FleetActuator] = {}
        self.observers: list[FleetObserver] = []
        self.notifier: Notifier | None = None
        self.signals: ScalingSignalProvider | None = None


_lock = Lock()
_set = Injected()


def set_fleet_actuator(actuator: FleetActuator) -> None:
    """Use `actuator` for the services of its `substrate` ("": those without a substrate block).

    It replaces a built-in one of the same substrate, and acts whatever FLEET_ACTUATOR says: whoever injects an actuator
    has decided.  Raises Misconfigured if it lacks part of the port.
    """
    _require(actuator, ("substrate", "kinds", "simulates", "lateness_s", "acknowledged_is_final", "refusal", "actuate"))
    with _lock:
        _set.actuators[actuator.substrate] = actuator


def set_fleet_observer(observer: FleetObserver) -> None:
    """Ask `observer` too, for the services of its `substrates`.  Where several answer, the freshest answer counts.

    Raises Misconfigured if it lacks part of the port.
    """
    _require(observer, ("name", "substrates", "observe"))
    with _lock:
        _set.observers = [one for one in _set.observers if one.name != observer.name] + [observer]


def set_default_notifier(notifier: Notifier) -> None:
    """Tell notices to `notifier`, besides the journal.  Raises Misconfigured if it lacks part of the port."""
    _require(notifier, ("name", "notify"))
    with _lock:
        _set.notifier = notifier


def send_notification(notice: Notice) -> bool:
    """Deliver a notice of your own as a plane does: through the notifier that was set, else to the log.

    Returns whether it was delivered; a notifier that raises has not delivered.  Nothing is written to a store.
    """
    notifier = injected().notifier or JournalNotifier()
    try:
        return bool(notifier.notify(notice))
    except Exception:  # a notifier is anybody's code, and its failure is only a notice that was not delivered
        log.exception("notifier failed", notifier=notifier.name)
        return False


def set_scaling_signal_provider(provider: SignalProvider) -> None:
    """Read scaling signals from `provider` alone, whatever signals.yml and the settings name.

    One without the bulk call is read pair by pair, if it is marked as trusted in this process.  Raises Misconfigured
    if it is not, or lacks part of the port.
    """
    found = as_provider(provider, time.monotonic)
    with _lock:
        _set.signals = found


def injected() -> Injected:
    """A copy of what is set now."""
    with _lock:
        copy = Injected()
        copy.actuators, copy.observers, copy.notifier = dict(_set.actuators), list(_set.observers), _set.notifier
        copy.signals = _set.signals
        return copy


def readable(signals: SignalProvider | None) -> ScalingSignalProvider | None:
    """That provider, or the one that was set; asked before a plane opens anything.  Raises Misconfigured."""
    return injected().signals if signals is None else as_provider(signals, time.monotonic)


def reset() -> None:
    """Forget everything that was set; planes that were built keep what they have."""
    with _lock:
        _set.actuators.clear()
        _set.observers.clear()
        _set.notifier = None
        _set.signals = None


def _require(part: object, names: tuple[str, ...]) -> None:
    lacking = [name for name in names if not hasattr(part, name)]
    if lacking:
        raise Misconfigured(
            f"{type(part).__name__} cannot be used: it has no {', '.join(lacking)}",
            hint="the Protocols in fleetwarden.ports say what is needed",
        )
