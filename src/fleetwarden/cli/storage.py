"""`db`: the store as a whole.  Backups while a plane runs; everything else while none does.

A restored store begins frozen, because what was done since the backup is unknown; `db release` is an admin's word that
it may go on.  A password in an address is never printed; `--to @FILE` keeps it off the command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.wording import counted
from fleetwarden.domain.errors import Misconfigured

if TYPE_CHECKING:
    from fleetwarden.app.storage import Storage

__all__ = ["db"]

db = typer.Typer(name="db", help="The store: back up, restore, migrate, move to PostgreSQL.", rich_markup_mode=None)
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


def _storage(call: Call) -> Storage:
    from fleetwarden.app.running import system_clock
    from fleetwarden.app.storage import Storage

    if call.names_a_plane:
        raise Misconfigured(
            "db works on the store itself, not through a plane's address",
            hint="run it where the data folder is, or with FLEET_STORE_URL, and without --url and FLEET_URL",
        )
    return Storage(call.settings, system_clock())


@db.command("backup")
@connected
def backup(call: Call, file: FileArgument) -> None:
    """Write the whole store to one file, also while the plane runs.  Overwrites nothing."""
    made = _storage(call).back_up(file)
    told = f"{from_here(file)}: {counted(made['rows'], 'row')}, schema {made['schema']}, from {made['source']}"
    call.answer(made, told)


@db.command("restore")
@connected
def restore(
    call: Call,
    file: FileArgument,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of a store that is not empty.")
    ] = False,
) -> None:
    """Put a backup back.  The plane then starts frozen, until an admin releases it."""
    done = _storage(call).restore(file, replace=replace)
    if call.as_json:
        call.show_json(done)
        return
    call.screen.line(f"restored {counted(done['rows'], 'row')} of {done['at']}; the store is frozen", indent=2)
    if done["replaced"]:
        call.screen.line(f"what was there is kept in {from_here(Path(done['replaced']))}", indent=2)
    call.screen.line("What happened since the backup is unknown.  Tokens that were revoked since are valid again:")
    call.screen.line(f"{call.command('token list')}, {call.command('recover list')}", indent=2)
    call.screen.line(f"then {call.command('db release --reason …')}", indent=2)


@db.command("release")
@connected
def release(
    call: Call, reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What you looked at and found.")]
) -> None:
    """Say, as an admin, that a restored store may act again."""
    body = _released(call, reason)
    call.answer(body, "released: the fleet acts again unless something else is frozen")


def _released(call: Call, reason: str) -> dict[str, Any]:
    client = call.remote()
    if client is not None:
        return dict(client.ask("POST", "/epochs/release", body={"reason": reason}).body)
    from fleetwarden.app.bootstrap import Offline
    from fleetwarden.app.identity import local_admin

    call.prepare_store(makes=False)
    offline = Offline(call.settings)
    try:
        return offline.epochs.release(local_admin(), reason=reason)
    finally:
        offline.close()


@db.command("migrate")
@connected
def migrate(
    call: Call,
    check: Annotated[bool, typer.Option("--check", help="Only say whether it is needed: 1 if it is.")] = False,
) -> None:
    """Bring the store to this version's schema, after a backup.  A start does the same."""
    storage = _storage(call)
    if check:
        found = storage.schema()
        word = {True: "is outdated", False: "is up to date"}[bool(found["outdated"])]
        if found["newer"]:
            raise Misconfigured(
                f"the store has schema {found['schema']}, this version knows schemas up to {found['newest']}",
                hint="run the newer version, or restore a backup from before",
            )
        told = f"schema {found['schema']} {word} (this version has {found['newest']})"
        call.answer(found, told if found["schema"] else "there is no store yet")
        if found["outdated"]:
            raise typer.Exit(1)
        return
    done = storage.migrate()
    told = f"schema {done['schema']} is up to date"
    if done["migrated"]:
        told = f"schema {done['schema']} → {done['newest']}; backed up before in {from_here(Path(done['backup']))}"
    call.answer(done, told)


@db.command("copy")
@connected
def copy(
    call: Call,
    to: Annotated[
        str,
        typer.Option("--to", metavar="URL", help="postgresql://USER@HOST/DATABASE, or @FILE with that in it."),
    ],
) -> None:
    """Move the SQLite store to an empty PostgreSQL database, and check every row there."""
    done = _storage(call).copy(_address(to))
    if call.as_json:
        call.show_json(done)
        return
    call.screen.line(f"{counted(done['rows'], 'row')} copied to {done['to']}, and compared", indent=2)
    call.screen.line("the old store is not used any more: set FLEET_STORE_URL to the new one", indent=2)


def _address(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"--to: {given[1:]} cannot be read: {error}") from error
