"""`plan` and `history`: what would happen now, and what happened to a service.  Both change nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted
from fleetwarden.cli.times import since_of

__all__ = ["history", "plan"]


@connected
def plan(call: Call) -> None:
    """What a pass would do now: rehearsed by the plane itself, with nothing written and nothing done."""
    from fleetwarden.cli.wishes_screen import show_plan

    body = call.plane().get("/plan")
    if call.as_json:
        call.show_json(body)
    else:
        show_plan(call.screen, body)


@connected
def history(
    call: Call,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="Its name, also of one that is gone.")],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only since then: 2h, or 2027-01-31T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Lines of one page.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", metavar="C", help="Go on below there.")] = None,
) -> None:
    """One service's decisions, actions, overrides, changes by others and notices, newest first."""
    from fleetwarden.app.running import system_clock
    from fleetwarden.cli.wishes_screen import show_history

    given = {"since": since_of(since, system_clock().now()), "limit": limit, "cursor": cursor}
    answered = call.plane().ask("GET", f"/services/{quoted(service)}/history", query=given)
    if call.as_json:
        call.show_json(answered.body)
        return
    show_history(call.screen, answered.body, answered.at)
    if answered.body.get("next") is not None:
        more = f"history {service} --cursor {answered.body['next']}"
        call.screen.line(f"older ones:  {call.command(more)}")
