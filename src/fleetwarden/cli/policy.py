"""`policy check|explain|test`: a policy file held against the rules of a plane, and questions put to it.

Reads files only; a plane is asked, if one runs, which policy stays in force.  What `explain` and `test` say is in
`policy_asking`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetwarden.cli import policy_asking
from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.wording import counted
from fleetwarden.domain.errors import FleetError

if TYPE_CHECKING:
    from fleetwarden.app.checking import PolicyFindings

__all__ = ["policy"]

policy = typer.Typer(name="policy", help="The action policy.", no_args_is_help=True, rich_markup_mode=None)


@policy.command("check")
@connected
def check(
    call: Call,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE|DIR]", help="A policy file, or a configuration folder.  Default: this folder's."),
    ] = None,
) -> None:
    """Name every problem and doubt with its file and line."""
    from fleetwarden.app.checking import PolicyFindings, check_policy

    file, folder = policy_asking.chosen(call, path)
    if file is None:
        found = PolicyFindings(file=str((folder or Path()) / policy_asking.POLICY))
    else:
        found = check_policy(_short(file), folder=folder)
    in_force = _in_force(call)
    if call.as_json:
        call.show_json(_as_json(found, in_force))
    elif file is None:
        where = _short(folder or Path())
        call.screen.line(f"{where} has no {policy_asking.POLICY}: the shipped default holds, everything asks first")
    else:
        _show(call, found, in_force)
    if found.problems:
        raise typer.Exit(2)


policy.command("explain")(connected(policy_asking.explain))
policy.command("test")(connected(policy_asking.try_cases))


def _short(path: Path) -> Path:
    """The path as findings name it."""
    return Path(from_here(path))


def _in_force(call: Call) -> dict[str, Any] | None:
    """What the running plane decides by; None if none runs or answers: told beside the findings, never needed."""
    try:
        client = call.remote()
        return None if client is None else dict(client.get("/policy"))
    except FleetError:
        return None


def _show(call: Call, found: PolicyFindings, in_force: dict[str, Any] | None) -> None:
    screen = call.screen
    for problem in found.problems:
        screen.line(str(problem), indent=4)
    for warning in found.warnings:
        place = f"{warning.file}:{warning.line}" if warning.line else warning.file
        screen.line(f"{place}  warning: {warning.reason}", indent=4, tone="warn")
    stays = f"; the policy in force stays {_named(in_force)}" if in_force is not None else ""
    if found.problems:
        screen.line(f"{counted(len(found.problems), 'problem')}{stays}", indent=2, tone="bad")
        return
    doubts = f", {counted(len(found.warnings), 'warning')}" if found.warnings else ""
    held = ""
    if in_force is not None:
        same = in_force.get("digest") == found.digest
        held = "; it is in force" if same else f"; in force now: {_named(in_force)}"
    screen.line(f"{found.file} is valid: {counted(found.rules or 0, 'rule')}{doubts}{held}", indent=2, tone="good")


def _named(in_force: dict[str, Any]) -> str:
    return f"{str(in_force.get('digest') or '')[:17]}… ({in_force.get('source')})"


def _as_json(found: PolicyFindings, in_force: dict[str, Any] | None) -> dict[str, Any]:
    def listed(problems: Any) -> list[dict[str, Any]]:
        return [{"file": one.file, "line": one.line, "reason": one.reason} for one in problems]

    return {
        "file": found.file,
        "valid": not found.problems,
        "problems": listed(found.problems),
        "warnings": listed(found.warnings),
        "rules": found.rules,
        "digest": found.digest or None,
        "in_force": None if in_force is None else {"digest": in_force.get("digest"), "source": in_force.get("source")},
    }
