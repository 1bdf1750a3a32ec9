"""Stopping the services of a fleet, one governed action each, until none is left or one is blocked.

A plane does it; where none runs, one is run for just that, with its reconciler off, so that it starts nothing again.
What policy denies or wants a person for is named with the command that helps, and stays running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import typer

from fleetwarden.cli.client import PlaneClient
from fleetwarden.cli.times import localised
from fleetwarden.cli.wording import counted
from fleetwarden.domain.errors import FleetError

if TYPE_CHECKING:
    from fleetwarden.cli.calling import Call
    from fleetwarden.ports.system import Clock

__all__ = ["Ask", "over_http", "stop_services", "without_a_plane"]

STALLED_AFTER_S = 120.0  # without one service fewer; a stop's own grace time ends earlier
ASK_EVERY_S = 0.5
REASON = "fleetwarden down --services"
Ask = Callable[[], Mapping[str, Any]]  # asks once more; {running, asked, blocked}


def over_http(client: PlaneClient) -> Ask:
    """Asks a running plane."""
    return lambda: dict(client.post("/shutdown", {"services": True, "reason": REASON}))


@contextmanager
def without_a_plane(call: Call) -> Iterator[Ask]:
    """A plane in this process, for as long as the block lasts, that proposes nothing by itself."""
    from fleetwarden.app.bootstrap import Plane
    from fleetwarden.app.identity import local_admin
    from fleetwarden.app.logs import start_logging, stop_logging

    settings = call.settings.model_copy(update={"fleet_reconciler": False})
    start_logging(settings)
    try:
        plane = Plane(settings)
        try:
            plane.start()
            yield lambda: plane.stopping.stop_services(local_admin(), acting=plane.acting, reason=REASON)
        finally:
            plane.stop()
    finally:
        stop_logging()


def stop_services(call: Call, ask: Ask, clock: Clock) -> list[str]:
    """Ask until nothing runs any more; returns what was stopped.

    Exits with 1 where something is blocked; raises FleetError where nothing moves any more.
    """
    before: set[str] = set()
    stopped: list[str] = []
    moved_at = clock.monotonic()
    while True:
        body = ask()
        running = set(body["running"])
        for name in sorted(before - running):
            stopped.append(name)
            call.progress(f"✓ {name} stopped", tone="good")
            moved_at = clock.monotonic()
        before = running
        if body["blocked"]:
            _show_blocked(call, body)
            raise typer.Exit(1)
        if not running:
            return stopped
        if clock.monotonic() - moved_at > STALLED_AFTER_S:
            raise FleetError(
                f"still running after {STALLED_AFTER_S:.0f} s: {', '.join(sorted(running))}",
                hint=f"look: {call.command('actions')}",
            )
        clock.wait(Event(), ASK_EVERY_S)


def _show_blocked(call: Call, body: Mapping[str, Any]) -> None:
    """What stands in the way of a stop, with the command that helps."""
    blocked = set(body["blocked"])
    if call.as_json:
        call.show_json({"ended": False, **body})
        return
    for one in body["asked"]:
        if one["service"] in blocked:
            call.screen.line(f"✗ {one['service']} is not stopped: {_obstacle(call, one)}", indent=4, tone="bad")
    also = sorted(set(body["running"]) - blocked)
    if also:
        call.screen.line(f"being stopped: {', '.join(also)}")
    call.screen.line(f"Nothing was ended, since {counted(len(blocked), 'stop')} could not be carried out.")


def _obstacle(call: Call, one: Mapping[str, Any]) -> str:
    approval, decision = one.get("approval_id"), one.get("decision_id")
    if approval:
        who = "it waits for a person (not the one who asked, unless the policy allows that)"
        return f"{who}:  {call.command(f'approvals grant {approval}')}"
    look = f" ({call.command(f'decisions show {decision}')})" if decision else ""
    return f"{localised(str(one['reason']), None)}{look}"
