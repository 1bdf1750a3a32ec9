"""`versions` and `logs`: which versions of a service there are and ran, and what it wrote last.  They only look."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted
from fleetwarden.domain.errors import NotFound

__all__ = ["logs", "versions"]


@connected
def versions(
    call: Call, service: Annotated[str, typer.Argument(metavar="SERVICE", help="As the registry names it.")]
) -> None:
    """Versions of a service: known, declared, running, and which ran since when by which action."""
    from fleetwarden.cli.captured_screen import show_versions

    answered = call.plane().ask("GET", f"/services/{quoted(service)}/versions")
    if call.as_json:
        call.show_json(answered.body)
    else:
        show_versions(call.screen, answered.body, answered.at)


@connected
def logs(
    call: Call,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="As the registry names it.")],
    replica: Annotated[
        str | None, typer.Option("--replica", metavar="ID", help="Only of this one, as status SERVICE lists them: 0.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", metavar="N", min=1, max=100, help="At most so many of each.")] = 100,
) -> None:
    """The last lines that each replica of a service wrote, without secrets."""
    from fleetwarden.cli.captured_screen import show_output

    answered = call.plane().ask("GET", f"/services/{quoted(service)}/logs")
    body = dict(answered.body)
    there = [str(one["id"]) for one in body["instances"]]
    if replica is not None and replica.removeprefix("#") not in there:
        raise NotFound(
            f"{service} has no replica {replica}", hint=f"there are: {', '.join(there)}" if there else "none is there"
        )
    wanted = there if replica is None else [replica.removeprefix("#")]
    body["instances"] = [
        {**one, "lines": one["lines"][-lines:], "cut": one["cut"] or len(one["lines"]) > lines}
        for one in body["instances"]
        if str(one["id"]) in wanted
    ]
    if call.as_json:
        call.show_json(body)
    else:
        show_output(call.screen, body, answered.at)
