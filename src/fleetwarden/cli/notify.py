"""`notify check|test`: whether notify.yml can be used, and a test message to one of its targets.

`check` reads the file as a plane would; `test` asks the running plane, which has the addresses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group

__all__ = ["notify"]

notify = group("notify", "check", "Who is told what: notify.yml, and a test message.")


@notify.command("check")
@connected
def check(
    call: Call,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A configuration folder.  Default: this one.")
    ] = None,
) -> None:
    """Name every problem of notify.yml with its line, and say who would be told what; 2 if it cannot be used."""
    from fleetwarden.app.checking_notify import check_notify

    found = check_notify(folder or call.settings.config_dir)
    if call.as_json:
        call.show_json(found)
    else:
        for one in (*found["problems"], *found["warnings"]):
            call.screen.line(one)
        call.screen.line(str(found["told"]))
        for one in found["routes"]:
            call.screen.line(f"  {one}")
    if found["problems"]:
        raise typer.Exit(2)


@notify.command("test")
@connected
def test(
    call: Call,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Its name in notify.yml.")],
) -> None:
    """Send a test message to one target, now and once; 1 if it was not taken."""
    body = call.plane().post("/notify/test", {"target": target})
    if body["delivered"]:
        call.answer(body, f"{target} took a test message")
        return
    call.answer(body, f"{target} did not take a test message: {body['error']}")
    raise typer.Exit(1)
