"""`import hpa`: a HorizontalPodAutoscaler's YAML as the `scaling:` block that behaves the same.

Reads one file (or standard input) and prints; no plane is asked and nothing is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, unconnected
from fleetwarden.domain.errors import Misconfigured

__all__ = ["importing"]

importing = typer.Typer(
    name="import", help="Configuration of other systems as one's own.", no_args_is_help=True, rich_markup_mode=None
)


@importing.callback()
def main() -> None:
    """Configuration of other systems as one's own."""


@importing.command("hpa")
@unconnected
def hpa(
    call: Call,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What kubectl get hpa NAME -o yaml says; - for standard input.")
    ],
) -> None:
    """The scaling block and the signals of an autoscaling/v2 HorizontalPodAutoscaler, to be copied."""
    from fleetwarden.app.importing import imported_hpa

    if str(file) == "-":
        found = imported_hpa("standard input", sys.stdin.buffer.read())
    elif file.exists():
        found = imported_hpa(str(file), None)
    else:
        raise Misconfigured(
            f"{file} does not exist", hint="kubectl get hpa NAME -n NAMESPACE -o yaml > FILE writes what is read here"
        )
    if call.as_json:
        call.show_json(found.as_json())
    else:
        call.screen.raw(found.text())
