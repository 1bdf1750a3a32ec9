"""The process substrate of one plane, put together: one supervisor, one observer, one actuator over it.

Whoever wires a plane needs this module and no other of its package.  The spawner and the signaller are parameters, so
that a test can stop the plane between an effect and its record without a hook in the product.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from fleetwarden.adapters.substrates.process.actuator import ProcessActuator
from fleetwarden.adapters.substrates.process.evidence import ProcessEvidence
from fleetwarden.adapters.substrates.process.logs import Logs
from fleetwarden.adapters.substrates.process.observer import ProcessObserver
from fleetwarden.adapters.substrates.process.signalling import PosixSignaller, Signaller
from fleetwarden.adapters.substrates.process.spawning import PosixSpawner, Spawner
from fleetwarden.adapters.substrates.process.supervisor import Supervisor
from fleetwarden.ports.system import Clock

__all__ = ["ProcessSubstrate"]


class ProcessSubstrate:
    """`observer`, `actuator` and `evidence` for the local processes of one fleet on one host.

    `fleet`: the fleet's id, a name; it has to stay the same over restarts of the plane.  `host`: this host's name.
    `data`: the data folder; slots go to `processes/`, output to `logs/`.  `environment`: what children inherit, without
    the plane's own settings (default: this process's).  `on_exit`: see Supervisor.  `log_bytes_max`, `logs_kept`: see
    Logs.  `pidfds` false: as on a kernel without them, deaths are looked for five times a second.
    Raises Misconfigured on a machine without Linux's /proc.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        fleet: str,
        host: str,
        data: Path,
        environment: Mapping[str, str] | None = None,
        on_exit: Callable[[str], None] | None = None,
        spawner: Spawner | None = None,
        signaller: Signaller | None = None,
        log_bytes_max: int = 10 * 1024 * 1024,
        logs_kept: int = 5,
        probes_max: int = 32,
        pidfds: bool = True,
    ) -> None:
        inherited = dict(os.environ) if environment is None else dict(environment)
        self.supervisor = Supervisor(clock, fleet=fleet, host=host, data=data, on_exit=on_exit, pidfds=pidfds)
        self.logs = Logs(clock, data / "logs", bytes_max=log_bytes_max, kept=logs_kept)
        self.observer = ProcessObserver(self.supervisor, inherited, probes_max=probes_max)
        self.evidence = ProcessEvidence(self.supervisor, self.logs)
        self.actuator = ProcessActuator(
            self.supervisor, spawner or PosixSpawner(), signaller or PosixSignaller(), self.logs, inherited
        )

    def running_besides(self, known: Collection[str]) -> dict[str, int]:
        """Services with live instances of ours that are not among `known`, and how many live: they are unmanaged."""
        others = [name for name in self.supervisor.slots.services() if name not in known]
        if not others:
            return {}
        table = self.supervisor.table()
        taken = {name: self.supervisor.census(name, table) for name in others}
        alive = {name: sum(slot.leader is not None for slot in one.slots) for name, one in taken.items()}
        return {name: count for name, count in alive.items() if count}

    def close(self) -> None:
        """Stop watching, probing and rotating.  Every instance runs on."""
        self.observer.close()
        self.logs.close()
        self.supervisor.close()
