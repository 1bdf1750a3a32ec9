"""`playbooks`: which ones answer events here, and whether a file of them is valid.

`check` only reads files; `list` asks the running plane.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected, unconnected
from fleetwarden.cli.listed import group
from fleetwarden.cli.wording import counted
from fleetwarden.domain.errors import Misconfigured

__all__ = ["playbooks"]

playbooks = group("playbooks", "list", "What answers events: playbooks in force, and checking a file of them.")


@playbooks.command("list")
@connected
def list_them(call: Call) -> None:
    """The playbooks in force, in the order in which they are asked."""
    body = call.plane().get("/playbooks")
    if call.as_json:
        call.show_json(body)
        return
    rows = [
        [
            one["name"],
            ", ".join(one["on"]) or "by the event's class",
            one["class"] or "–",
            ", ".join(one["services"]) or "–",
            " → ".join(str(step["kind"]) for step in one["steps"]) or "–",
            one["where"],
        ]
        for one in body["items"]
    ]
    call.screen.table(("PLAYBOOK", "ANSWERS", "CLASS", "SERVICES", "STEPS", "FROM"), rows)
    for problem in body["problems"]:
        call.screen.line(f"! playbooks.yml is rejected, the last good one stays in force: {problem}", tone="warn")


@playbooks.command("check")
@unconnected
def check(
    call: Call,
    path: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Default: playbooks.yml of the folder.", show_default=False)
    ] = None,
) -> None:
    """Read a file of playbooks as a plane would, and name every problem with its line."""
    from fleetwarden.app.checking import check_playbooks

    file = path or call.settings.config_dir / "playbooks.yml"
    found = check_playbooks(file)
    if found.problems:
        raise Misconfigured(f"{file.name} cannot be used", found.problems)
    call.answer({"file": str(file), "playbooks": found.number}, f"{file} is valid: {counted(found.number, 'playbook')}")
