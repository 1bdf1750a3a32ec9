"""`down`: ends the plane of this data folder; with `--services` its services first, as governed actions.

The plane is ended by a signal to the process that the kernel says holds the lock, or over HTTP where it was named by
its address.  It drains before it ends, and nothing is done twice if it has to be killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import PlaneClient, Unreachable
from fleetwarden.domain.errors import FleetError, Retryable

if TYPE_CHECKING:
    from fleetwarden.app.running import RunningPlane
    from fleetwarden.ports.system import Clock

__all__ = ["down"]

END_WITHIN_S = 60.0  # a plane drains for at most half of this
POLL_S = 0.25


@connected
def down(
    call: Call,
    services: Annotated[
        bool, typer.Option("--services", help="First stop the services that it manages, as governed actions.")
    ] = False,
) -> None:
    """End the plane of this data folder.  Its services keep running unless --services stops them."""
    from fleetwarden.app.running import system_clock
    from fleetwarden.cli.stopping_services import over_http, stop_services, without_a_plane

    clock = system_clock()
    client = call.remote_if_ready()
    running = None if call.names_a_plane else call.running()
    if client is None and running is None:
        stopped: list[str] = []
        if services and call.has_store():
            call.progress("no plane runs here: what it left running is stopped by one that does only that")
            with without_a_plane(call) as ask:
                stopped = stop_services(call, ask, clock)
        call.answer({"ended": False, "services_stopped": stopped}, "nothing runs here")
        return
    stopped = []
    if services:
        if client is None:
            raise Retryable("the plane is still starting and cannot be asked yet", hint="try again in a moment")
        stopped = stop_services(call, over_http(client), clock)
    if running is not None:
        _end_process(call, running, clock)
    elif client is not None:
        _end_remote(client, clock)
    left = "" if services else f"; services keep running, {call.command('down --services')} stops them"
    call.answer({"ended": True, "services_stopped": stopped}, f"the plane has ended{left}")


def _end_process(call: Call, running: RunningPlane, clock: Clock) -> None:
    """Tell the holder of the lock to end, and wait until the lock is free."""
    here = os.uname().nodename
    if running.host != here:
        where = f"the plane runs on {running.host}, this is {here}"
        raise FleetError(where, hint="end it there, or name it with --url")
    _signal(running, lambda: _holds(call, running))
    until = clock.monotonic() + END_WITHIN_S
    while _holds(call, running):
        if clock.monotonic() > until:
            raise FleetError(
                f"process {running.pid} has not ended within {END_WITHIN_S:.0f} s",
                hint=f"it may be waiting for a call in flight; kill -9 {running.pid} is safe: nothing is done twice",
            )
        clock.wait(Event(), POLL_S)


def _holds(call: Call, running: RunningPlane) -> bool:
    now = call.running()
    return now is not None and (now.pid, now.since) == (running.pid, running.since)


def _signal(running: RunningPlane, still_holds: Callable[[], bool]) -> None:
    """SIGTERM to exactly that process: its number may have gone to another one meanwhile."""
    try:
        handle = os.pidfd_open(running.pid)
    except AttributeError:  # no such call on this system
        if still_holds():
            os.kill(running.pid, signal.SIGTERM)
        return
    except ProcessLookupError:
        return
    except OSError as error:
        raise FleetError(f"process {running.pid} cannot be reached: {error.strerror}") from error
    try:
        if still_holds():  # asked after the handle was opened: the handle is of the holder
            signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise FleetError(f"process {running.pid} belongs to somebody else", hint="end it as its owner") from error
    finally:
        os.close(handle)


def _end_remote(client: PlaneClient, clock: Clock) -> None:
    """Ask a plane that was named by its address, and wait until nobody answers there."""
    client.post("/shutdown", {"services": False, "reason": "fleetwarden down"})
    until = clock.monotonic() + END_WITHIN_S
    while clock.monotonic() < until:
        try:
            client.get("/status")
        except Unreachable:
            return
        except FleetError:
            pass  # it is on its way down
        clock.wait(Event(), POLL_S)
    raise FleetError(f"the plane at {client.url} still answers after {END_WITHIN_S:.0f} s")
