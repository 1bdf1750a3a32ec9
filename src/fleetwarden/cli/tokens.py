"""`token`: who may talk to the plane.  A secret is shown once, when it is made, and is stored nowhere.

`--local` makes an admin token at the store itself while no plane runs: whoever owns the data folder is its owner.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.listed import group
from fleetwarden.cli.options import Duration
from fleetwarden.cli.times import ago, parsed, shown
from fleetwarden.domain.errors import Misconfigured, Refused

__all__ = ["tokens"]

tokens = group("token", "list", "Who may talk to the plane.")


@tokens.command("create")
@connected
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called in lists and in the ledger.")] = "",
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="viewer, ingest, operator, approver or admin; may stand twice.  approver:web is for one group.",
        ),
    ] = None,
    teams: Annotated[
        str, typer.Option("--teams", metavar="TEAM,…", help="The person's teams: dba,platform.  Default: none.")
    ] = "",
    person: Annotated[str, typer.Option("--person", metavar="NAME", help="Who acts with it.  Default: its name.")] = "",
    for_s: Annotated[
        float | None,
        typer.Option("--for", "--expires", metavar="SPAN", parser=Duration, help="How long it is valid: 12h, 30d."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="FILE", help="Write the secret there, for its owner only, instead of printing it."
        ),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Make it at the store itself, while no plane runs: when no token is left.")
    ] = False,
) -> None:
    """Make a token and print its secret, once, or write it into a file."""
    if into is not None and not (into.parent.is_dir() and os.access(into.parent, os.W_OK)):
        raise Misconfigured(f"{into.parent} is no folder that can be written to", hint="no token was made")
    if local:
        made, now = _at_the_store(call, name, tuple(roles or ("admin",)), person, for_s, _teams(teams))
    else:
        if not name:
            example = call.command("token create ana --role approver")
            raise Misconfigured("a token needs a name", hint=f"such as {example}")
        with call.authority(makes=True) as authority:
            made = authority.create_token(
                name=name, roles=tuple(roles or ()), person=person, for_s=for_s, teams=_teams(teams)
            )
            now = authority.now()
    written = into is not None and _written(call, into, made)
    if call.as_json:
        call.show_json(made)
        return
    until = f", until {shown(made['expires_at'], now)}" if made.get("expires_at") else ""
    member = f", of team {', '.join(made['teams'])}" if made.get("teams") else ""
    call.screen.line(f"{made['name']}: {', '.join(made['roles'])}, acts as {made['person']}{member}{until}", indent=2)
    if written:
        call.screen.line(f"its secret is in {into}, readable by its owner only", indent=2)
        return
    call.screen.line(str(made["secret"]))
    call.screen.line("It is not shown again.  Use it as FLEET_TOKEN or with --token.")


def _written(call: Call, file: Path, made: dict[str, Any]) -> bool:
    """Whether the secret is in the file, and no longer in the answer.  What cannot be written is shown: it is the only
    one that there is."""
    from fleetwarden.app.running import write_secret

    try:
        write_secret(file, str(made["secret"]))
    except Misconfigured as error:
        call.progress(f"{error.message}; so the secret is shown", tone="warn")
        return False
    del made["secret"]
    return True


def _teams(given: str) -> tuple[str, ...]:
    """The names between the commas; an empty one among them is passed on and refused with the others."""
    return tuple(name.strip() for name in given.split(",")) if given.strip() else ()


def _at_the_store(
    call: Call, name: str, roles: tuple[str, ...], person: str, for_s: float | None, teams: tuple[str, ...]
) -> tuple[dict[str, Any], datetime | None]:
    """A token made by whoever owns the data folder.  Raises Refused while a plane holds the store.

    Where the admin token that commands use is lost or not valid any more, an admin token takes its place.
    """
    from fleetwarden.app.running import keep_token, kept_token
    from fleetwarden.cli.authority import opened

    running = call.running()
    if running is not None:
        raise Refused(
            f"process {running.pid} holds the store, so it cannot be opened here",
            hint=f"with a valid token leave --local out; without one end the plane first: {call.command('down')}",
        )
    call.prepare_store(makes=True)
    with opened(call.settings) as authority:
        taken = {one["name"] for one in authority.tokens()["items"] if not one.get("revoked_at")}
        made = authority.create_token(
            name=name or _free(taken), roles=roles, person=person or "admin", for_s=for_s, teams=teams
        )
        if "admin" in roles and not authority.knows(kept_token(call.settings)):
            file = keep_token(call.settings, str(made["secret"]))
            call.progress(f"saved in {from_here(file)}, where commands look for it")
        return made, authority.now()


def _free(taken: set[str]) -> str:
    """`admin-local`, or the first of `admin-local-2`, … that no live token has."""
    usual = "admin-local"
    return next(
        one for one in (usual, *(f"{usual}-{number}" for number in range(2, len(taken) + 3))) if one not in taken
    )


@tokens.command("list")
@connected
def list_(call: Call) -> None:
    """Every token, without its secret."""
    with call.authority() as authority:
        body = authority.tokens()
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    rows = []
    for one in body["items"]:
        until = parsed(one.get("expires_at"))
        if one.get("revoked_at"):
            state = f"revoked {ago(one['revoked_at'], now)}"
        elif until is not None and now is not None and until <= now:
            state = f"expired {ago(one['expires_at'], now)}"
        else:
            state = f"valid until {shown(one['expires_at'], now)}" if until is not None else "valid"
        teams = ", ".join(one.get("teams") or ()) or "–"
        rows.append((one["name"], one["person"], ", ".join(one["roles"]), teams, f"made {ago(one['at'], now)}", state))
    if rows:
        call.screen.table(("NAME", "ACTS AS", "ROLES", "TEAMS", "MADE", "STATE"), rows)
    else:
        call.screen.line("no token exists")


@tokens.command("rotate")
@connected
def rotate(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As it is listed.")],
    # None, not 0.0: the parser reads defaults as well, and knows only text.
    overlap_s: Annotated[
        float | None,
        typer.Option("--overlap", metavar="SPAN", parser=Duration, help="How long the old secret stays valid: 1h."),
    ] = None,
    for_s: Annotated[
        float | None,
        typer.Option("--expires", metavar="SPAN", parser=Duration, help="How long the new one is valid: 30d."),
    ] = None,
) -> None:
    """Exchange a token's secret and print the new one, once.  Without --overlap the old one ends at once."""
    with call.authority() as authority:
        made = authority.rotate_token(name, overlap_s=overlap_s or 0.0, for_s=for_s)
        now = authority.now()
    _keep_if_kept(call, made)
    if call.as_json:
        call.show_json(made)
        return
    old = made.get("old_expires_at")
    told = f"the old one, {made['name']}.old, is valid until {shown(old, now)}" if old else "the old one is revoked"
    call.screen.line(f"{made['name']} has a new secret; {told}", indent=2)
    call.screen.line(str(made["secret"]))
    call.screen.line("It is not shown again.")


def _keep_if_kept(call: Call, made: dict[str, Any]) -> None:
    """Where the data folder keeps the secret that was exchanged, it keeps the new one."""
    from fleetwarden.app.running import keep_token, token_file

    if call.names_a_plane or made["name"] not in ("admin", "admin-local") or not token_file(call.settings).exists():
        return
    file = keep_token(call.settings, str(made["secret"]))
    call.progress(f"saved in {from_here(file)}, where commands look for it")


@tokens.command("revoke")
@connected
def revoke(call: Call, name: Annotated[str, typer.Argument(metavar="NAME", help="As it is listed.")]) -> None:
    """End a token at once."""
    with call.authority() as authority:
        ended = authority.revoke_token(name)
    if call.as_json:
        call.show_json(ended)
    else:
        call.screen.line(f"{ended['name']} is revoked: it opens nothing any more")
