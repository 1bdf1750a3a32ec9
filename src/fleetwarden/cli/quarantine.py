"""`quarantine clear`: a version that failed its watch may be deployed again.

The lists of quarantines are with the other lists.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted

__all__ = ["add_clear"]


def add_clear(group: typer.Typer) -> None:
    """Add the command to the group of quarantines."""
    group.command("clear", help="Let versions that failed their watch be deployed again.")(_clear)


@connected
def _clear(
    call: Call,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="Its name in the registry.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was wrong, and what was mended.")] = "",
) -> None:
    """Let versions that failed their watch be deployed again."""
    body = call.plane().post(f"/services/{quoted(service)}/quarantine/clear", {"reason": reason})
    named = ", ".join(one["version"] for one in body["items"])
    call.answer(body, f"Version {named} of {service} may be deployed again.")
