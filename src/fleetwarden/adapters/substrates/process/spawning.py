"""Making one process, so that it outlives whoever made it.

Every instance leads a session of its own, so that no terminal and no group signal meant for the plane reaches it; it
reads from /dev/null and writes straight to its log file.  Its environment is the plane's without anything that is the
plane's own, and with the marker that says whose it is.  The spawner does one thing, so that a fault can be put in front
of it or behind it; whether a process should be made is decided elsewhere.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

from fleetwarden.adapters.substrates.process.proc import MARKER_VARIABLE, Marker, command_of
from fleetwarden.domain.errors import Refused
from fleetwarden.domain.fleet import ProcessSpec, Service
from fleetwarden.domain.placeholders import expand

__all__ = [
    "PosixSpawner",
    "SpawnOrder",
    "Spawner",
    "child_environment",
    "fill",
    "placeholder_values",
    "port_holder",
    "preflight",
]

# The plane's own settings and secrets, and what a service manager gave to the plane alone.
_PRIVATE_PREFIXES = ("FLEET_", "FLEETWARDEN_", "ACTION_", "DEPLOY_WATCH_", "SCALING_")
_PRIVATE_NAMES = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"}
)


class SpawnOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to make one process; nothing in it is expanded any further."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    log: Path


class Spawner(Protocol):
    """Makes processes."""

    def spawn(self, order: SpawnOrder) -> int:
        """Start it and return its pid once its program runs (exec succeeded).

        It is a child of this process; whoever calls sees to its end.  Raises OSError or ValueError if no process was
        made.
        """


class PosixSpawner:
    """The real one."""

    def spawn(self, order: SpawnOrder) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        output = os.open(order.log, flags, 0o640)
        try:
            process = subprocess.Popen(  # noqa: S603 - running declared commands is what this adapter is for
                order.argv,
                cwd=order.cwd,
                env=order.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                close_fds=True,
            )
        finally:
            os.close(output)
        # The process belongs to its slot, not to this object: marked as dealt with, the object neither complains when
        # it is collected nor waits for the pid later and takes the exit status from whoever watches for it.
        process.returncode = 0
        return process.pid


def placeholder_values(service: Service, spec: ProcessSpec, index: int) -> dict[str, str | int]:
    """What the placeholders of this slot stand for; `port` only where the service has one."""
    values: dict[str, str | int] = {"index": index, "version": service.version, "name": service.name}
    if spec.port is not None:
        values["port"] = spec.port + index
    return values


def fill(text: str, values: Mapping[str, str | int]) -> str:
    """`text` with its placeholders filled.  Raises Refused (`bad_placeholder`) for one that has no value here."""
    try:
        return expand(text, values)
    except KeyError as error:
        raise Refused(f"{text!r} asks for {error.args[0]!r}, and there is none", code="bad_placeholder") from error


def child_environment(
    plane: Mapping[str, str], spec: ProcessSpec, values: Mapping[str, str | int], marker: Marker | None
) -> dict[str, str]:
    """The environment of an instance, or, without a marker, of a health command beside it."""
    kept = {
        name: value
        for name, value in plane.items()
        if not name.startswith(_PRIVATE_PREFIXES) and name not in _PRIVATE_NAMES
    }
    kept |= {name: fill(value, values) for name, value in spec.env.items()}
    kept.pop(MARKER_VARIABLE, None)
    if marker is not None:
        kept[MARKER_VARIABLE] = str(marker)
    return kept


def preflight(order: SpawnOrder) -> None:
    """Raise Refused where a spawn is bound to fail, before a running instance is ended for it."""
    if not Path(order.cwd).is_dir():
        raise Refused(f"the working folder {order.cwd} does not exist", code="spawn_failed")
    program = order.argv[0] if order.argv else ""
    place = program if "/" not in program else str(Path(order.cwd, program))
    if not program or shutil.which(place, path=order.environment.get("PATH", os.defpath)) is None:
        raise Refused(f"the command {program!r} was not found, or may not be executed", code="spawn_failed")


def port_holder(port: int) -> str | None:
    """Who listens on `port` of loopback or of all addresses, in words, or None if nobody does.

    A question, not a reservation: somebody else may take the port right after.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # a privileged port: the service itself may be allowed
                return None
        else:
            return None
    for connection in psutil.net_connections(kind="tcp"):
        listens = connection.status == psutil.CONN_LISTEN
        if listens and connection.laddr and connection.laddr.port == port and connection.pid:
            command = command_of(connection.pid)
            return f"pid {connection.pid}" + (f" ({command})" if command else "")
    return "a process that cannot be seen from here"
