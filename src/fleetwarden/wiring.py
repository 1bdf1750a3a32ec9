"""Injection by import, for deployments that start the command line from a few lines of Python.

    from fleetwarden import cli, wiring
    wiring.set_fleet_observer(MyObserver())
    wiring.set_fleet_actuator(MyActuator())
    cli.main()

What is set before a plane is built is used by it.  It never changes a plane that runs already.
"""

from __future__ import annotations

from fleetwarden.app.injection import (
    reset,
    set_default_notifier,
    set_fleet_actuator,
    set_fleet_observer,
    set_scaling_signal_provider,
)

__all__ = [
    "reset",
    "set_default_notifier",
    "set_fleet_actuator",
    "set_fleet_observer",
    "set_scaling_signal_provider",
]
