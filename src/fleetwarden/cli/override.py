"""`override`, `adopt`, `reassert`: what an operator asks for besides the files, and the answer to others' changes.

They go to a running plane: it alone knows the registry that an override is checked against, and acts on it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted
from fleetwarden.cli.listed import group
from fleetwarden.cli.options import Duration

__all__ = ["adopt", "override", "reassert"]

override = group("override", "list", "What is asked of a service besides the files, until it is cleared.")

ServiceArgument = Annotated[str, typer.Argument(metavar="SERVICE", help="Its name in the registry.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with it.")]
UNEXPLAINED = "no reason was given"


@override.command("set")
@connected
def set_(
    call: Call,
    service: ServiceArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; shown wherever the override is.")
    ] = UNEXPLAINED,
    replicas: Annotated[int | None, typer.Option("--replicas", metavar="N", help="How many.")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="STATE", help="running or stopped.")] = None,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SPAN", parser=Duration, help="For how long: 90s, 10m, 2h, 7d.")
    ] = None,
) -> None:
    """Ask for a count, a state, or both.  It replaces the service's earlier override; policy still decides."""
    from fleetwarden.cli.wishes_screen import override_words

    body = {"replicas": replicas, "state": state, "for_s": for_s, "reason": reason}
    item = call.plane().ask("PUT", f"/services/{quoted(service)}/override", body=body).body
    if call.as_json:
        call.show_json(item)
        return
    call.screen.line(f"{item['id']}: {override_words(item, None)}", indent=2)
    call.screen.line(f"what follows:  {call.command('plan')}")
    call.screen.line(f"take it back:  {call.command(f'override clear {service}')}")


@override.command("clear")
@connected
def clear(call: Call, service: ServiceArgument, reason: ReasonOption = "") -> None:
    """End a service's override: the files count again."""
    path = f"/services/{quoted(service)}/override"
    item = call.plane().ask("DELETE", path, query={"reason": reason or None}).body
    call.answer(item, f"{item['id']} of {service} is cleared: the files count again")


@override.command("list")
@connected
def list_(
    call: Call,
    target: Annotated[str | None, typer.Option("--target", metavar="SERVICE", help="Only of this service.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Items of one page.")] = 50,
    cursor: Annotated[int | None, typer.Option("--cursor", metavar="N", help="Go on below this one.")] = None,
) -> None:
    """Overrides, newest first, with those that have ended."""
    from fleetwarden.cli.wishes_screen import show_overrides

    with call.authority() as authority:
        body = authority.page("service_overrides", {"target": target, "limit": limit, "cursor": cursor})
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    show_overrides(call.screen, body["items"], now)
    if body.get("next") is not None:
        more = f"override list --cursor {body['next']}" + (f" --target {target}" if target else "")
        call.screen.line(f"older ones:  {call.command(more)}")


@connected
def adopt(call: Call, service: ServiceArgument, reason: ReasonOption = "") -> None:
    """Keep what somebody else changed in a service: it is asked for from now on."""
    _answer(call, service, "adopt", reason)


@connected
def reassert(call: Call, service: ServiceArgument, reason: ReasonOption = "") -> None:
    """Put a service back to what is asked for: what somebody else changed counts no more."""
    _answer(call, service, "reassert", reason)


def _answer(call: Call, service: str, verb: str, reason: str) -> None:
    body = call.plane().post(f"/services/{quoted(service)}/{verb}", {"reason": reason or None})
    call.answer(body, str(body["message"]))
