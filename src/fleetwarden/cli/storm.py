"""`storm`: whether so much is sick that controllers do not repair any more, and closing that breaker by hand.

It talks to the running plane: a breaker is of what a plane has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group
from fleetwarden.cli.times import shown

__all__ = ["storm"]

storm = group("storm", "status", "The storm breaker: what is open, and closing it.")

ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was wrong, and what was done.")]


@storm.command("status")
@connected
def status(call: Call) -> None:
    """Which breakers are open, and how many services have to be sick for it."""
    body = call.plane().get("/storm")
    if call.as_json:
        call.show_json(body)
        return
    _show(call, body)


@storm.command("clear")
@connected
def clear(call: Call, reason: ReasonOption = "") -> None:
    """Close every open breaker: controllers repair again.  Who is sick now counts again once it was up."""
    body = call.plane().post("/storm/clear", {"reason": reason})
    if call.as_json:
        call.show_json(body)
        return
    call.screen.line("The breaker is closed: what is needed is decided anew on the next pass.")


def _show(call: Call, body: Mapping[str, Any]) -> None:
    opened = body.get("open") or ()
    if not opened:
        call.screen.line("no storm")
    for one in opened:
        names = ", ".join(one["names"])
        call.screen.line(
            f"storm in {one['scope'].replace(':', ' ')} since {shown(one['since'], None)}: "
            f"{one['sick']} of {one['total']} services are sick ({names}), from {one['threshold']} on it is one",
            indent=2,
            tone="warn",
        )
        if one.get("calm_since"):
            call.screen.line(f"  fewer since {shown(one['calm_since'], None)}: it ends after 5 calm minutes", indent=4)
    if opened:
        call.screen.line(f"close it:  {call.command('storm clear --reason …')}")
