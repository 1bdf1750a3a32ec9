"""`fleetwarden ledger`: verify that nothing that was sealed was changed, and export it for a verifier elsewhere.

Both read page by page, from the running plane or from the store itself while none runs, and hold no snapshot.  The
judgement is that of `fleetwarden.ledger_verifier`, the same file that can be taken to another machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group
from fleetwarden.cli.screen import clean
from fleetwarden.domain.errors import Conflict, Misconfigured

if TYPE_CHECKING:
    from fleetwarden.cli.authority import Authority

__all__ = ["ledger"]

ledger = group("ledger", "verify", "Prove that nothing that was sealed has been changed.")

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The checkpoints' key.  Default: the data folder's."),
]


def _items(authority: Authority) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = authority.ledger_page(cursor)
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def _key(call: Call, given: Path | None) -> bytes | None:
    """The key that was named, else that of this data folder unless another plane is meant.  Raises Misconfigured."""
    if given is None:
        if call.names_a_plane:
            return None
        from fleetwarden.app.running import ledger_key_file

        given = ledger_key_file(call.settings)
        if not given.exists():
            return None
    try:
        return given.read_bytes().strip()
    except OSError as error:
        raise Misconfigured(f"{given} cannot be read: {error.strerror}") from error


def verify(call: Call, key: KeyOption = None) -> None:
    from fleetwarden.ledger_verifier import Verifier

    verifier = Verifier(_key(call, key))
    with call.authority() as authority:
        for item in _items(authority):
            verifier.take(item)
    report = verifier.end()
    if call.as_json:
        call.show_json(report.plain())
    else:
        for line in report.words():
            call.screen.line(line, indent=2)
    if not report.sound:
        raise typer.Exit(1)


def export(
    call: Call, file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; it must not exist.")]
) -> None:
    from fleetwarden.domain.identifiers import canonical_json

    count = 0
    with call.authority() as authority:
        try:
            with file.open("xb") as opened:
                for item in _items(authority):
                    opened.write(canonical_json(item) + b"\n")
                    count += 1
        except FileExistsError as error:
            raise Conflict(f"{file} exists already; it is not overwritten", hint="name another file") from error
        except OSError as error:
            raise Misconfigured(f"{file} cannot be written: {error.strerror}") from error
        except BaseException:
            file.unlink(missing_ok=True)
            raise
    call.answer(
        {"file": str(file), "items": count},
        f"{count} items in {file}; python ledger_verifier.py {file} verifies it anywhere",
    )


def text(
    call: Call, digest: Annotated[str, typer.Argument(metavar="DIGEST", help="As a decision names its policy.")]
) -> None:
    with call.authority() as authority:
        found = authority.ledger_text(digest)
    if call.as_json:
        call.show_json(found)
    else:
        for line in str(found["body"]).splitlines():
            call.screen.raw(clean(line))


ledger.command("text", help="Print a policy or registry as it was in force, by its digest.")(connected(text))
ledger.command("verify", help="Compute every digest and seal again; exit code 1 if anything was changed.")(
    connected(verify)
)
ledger.command("export", help="Write the whole ledger as JSON lines, for the offline verifier.")(connected(export))
