"""`shadow report`: what the autoscaler would have asked for where another controller writes the count."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted
from fleetwarden.cli.times import since_of

__all__ = ["shadow"]

shadow = typer.Typer(
    name="shadow",
    help="Evaluations that nothing follows from: mode observe, external_hpa, external_keda.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@shadow.callback()
def main() -> None:
    """Evaluations that nothing follows from: mode observe, external_hpa, external_keda."""


@shadow.command("report")
@connected
def report(
    call: Call,
    service: Annotated[
        str | None, typer.Argument(metavar="[SERVICE]", help="Its name.  Default: all that are in shadow.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only since then: 2h, or 2027-01-31T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Services of one page.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", metavar="C", help="Go on behind there.")] = None,
) -> None:
    """Compare the kept evaluations with what the controller in charge did: nothing is changed."""
    from fleetwarden.app.running import system_clock
    from fleetwarden.cli.shadow_screen import show_report, show_reports

    began = since_of(since, system_clock().now())
    if service is not None:
        answered = call.plane().ask("GET", f"/services/{quoted(service)}/shadow", query={"since": began})
    else:
        answered = call.plane().ask("GET", "/shadow", query={"since": began, "limit": limit, "cursor": cursor})
    if call.as_json:
        call.show_json(answered.body)
    elif service is not None:
        show_report(call.screen, answered.body, answered.at)
    else:
        show_reports(call.screen, answered.body["items"])
        if answered.body.get("next") is not None:
            more = f"shadow report --cursor {answered.body['next']}"
            call.screen.line(f"more:  {call.command(more)}")
