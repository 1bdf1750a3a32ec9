"""`versions`: what of a service can be deployed, what runs, and what ran since when.  It changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import quoted

__all__ = ["versions"]


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
