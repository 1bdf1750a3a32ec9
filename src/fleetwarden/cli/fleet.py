"""`status` and `explain`: what is, and why.  Both read the running plane and change nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted
from fleetwarden.domain.errors import FleetError, Misconfigured

__all__ = ["explain", "status"]

ServiceArgument = Annotated[str, typer.Argument(metavar="SERVICE", help="Its name in the registry.")]


@connected
def status(
    call: Call,
    service: Annotated[
        str | None, typer.Argument(metavar="[SERVICE]", help="Only this one, with its instances.", show_default=False)
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", metavar="N", min=0, help="Print only the process id of instance N.")
    ] = None,
    address: Annotated[bool, typer.Option("--address", help="Print only where the plane answers.")] = False,
) -> None:
    """The fleet at a glance: what is on, off, frozen and dry run, and why nothing happens now."""
    from fleetwarden.cli import status_screen

    if pid is not None and service is None:
        raise Misconfigured("--pid needs a service", hint=f"such as {call.command('status web --pid 0')}")
    plane = call.plane()
    if address:
        call.screen.raw(plane.url)
        return
    if service is None:
        body = plane.get("/status")
        if call.as_json:
            call.show_json(body)
        else:
            status_screen.show_status(call.screen, body)
        return
    item = plane.get(f"/services/{quoted(service)}")
    if pid is not None:
        number = status_screen.pid_of(item, pid)
        if number is None:
            known = ", ".join(f"{one['id']} ({one['status']})" for one in item.get("instances") or ())
            raise FleetError(f"{service} has no running instance {pid}", hint=f"instances: {known or 'none'}")
        call.screen.raw(str(number))
    elif call.as_json:
        call.show_json(item)
    else:
        status_screen.show_one(call.screen, item)


@connected
def explain(call: Call, service: ServiceArgument) -> None:
    """Why a service was, or was not, acted upon: the rule, the budgets, the evidence, and what would change it."""
    from fleetwarden.cli.explain_screen import show_explanation

    body = call.plane().get(f"/services/{quoted(service)}/explain")
    if call.as_json:
        call.show_json(body)
    else:
        show_explanation(call.screen, body, call.words)
