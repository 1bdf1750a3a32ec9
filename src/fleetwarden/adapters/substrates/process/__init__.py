"""Real local processes: supervised without being owned, so that they outlive the plane and the next one finds them.

Three rules carry everything else.  Identity is pid, start ticks and boot, never a time of day.  Whatever is made
carries a marker with the key of the action that made it, and is written down before and after.  Nothing is signalled
that is not proven to be ours.  `proc` reads the kernel, `slots` keeps the files, `census` brings both together;
`observer` and `actuator` are the two ports over them, and `substrate` puts the parts together.
"""

from __future__ import annotations

from fleetwarden.adapters.substrates.process.actuator import ProcessActuator
from fleetwarden.adapters.substrates.process.observer import ProcessObserver
from fleetwarden.adapters.substrates.process.signalling import PosixSignaller, Signaller
from fleetwarden.adapters.substrates.process.spawning import PosixSpawner, Spawner, SpawnOrder
from fleetwarden.adapters.substrates.process.substrate import ProcessSubstrate

__all__ = [
    "PosixSignaller",
    "PosixSpawner",
    "ProcessActuator",
    "ProcessObserver",
    "ProcessSubstrate",
    "Signaller",
    "SpawnOrder",
    "Spawner",
]
