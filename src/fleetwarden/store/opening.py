"""The way in: a URL or a path becomes a store that is known to work.

Opening takes the ownership of a SQLite file, brings the schema up to date, lets the store show that it can do what
everything rests on, and voids the leases of whoever owned the file before.  Drivers are loaded only for the database
that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store.capabilities import require_capabilities
from fleetwarden.store.file_systems import refuse_network_file_system
from fleetwarden.store.ownership import LockHolder, lock_holder

if TYPE_CHECKING:
    from fleetwarden.store.postgresql_bell import PostgresqlBell
    from fleetwarden.store.postgresql_engine import PostgresqlStore
    from fleetwarden.store.sqlite_engine import SqliteStore

__all__ = ["LockHolder", "lock_holder", "open_bell", "open_store", "require_capabilities", "sqlite_path"]

_POSTGRESQL = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_FORMS = "sqlite:///relative/path, sqlite:////absolute/path, a plain path, or postgresql://user@host/database"


def sqlite_path(url: str) -> Path | None:
    """The database file that `url` (or a plain path) names, or None if it names a PostgreSQL database.

    Raises Misconfigured for anything else.
    """
    if url.startswith(_POSTGRESQL):
        return None
    text = url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else url
    if not text or "://" in text or text.startswith(("sqlite:", ":memory:")) or "?" in text or "\0" in text:
        raise Misconfigured(f"{url!r} names no store", hint=_FORMS)
    return Path(text)


def open_store(
    url: str | Callable[[], str], clock: Clock, *, synchronous_off: bool = False
) -> SqliteStore | PostgresqlStore:
    """Open the store at `url`: `sqlite:///path`, a plain path, or `postgresql://…`, also as a function that says the
    latter anew for each connection.

    `synchronous_off`, for simulations on SQLite only, does without waiting for the disk.  Raises Misconfigured (owned
    by another process, no such folder, a newer schema, a missing driver) and StoreUnavailable (nobody answers there).
    """
    path = sqlite_path(url) if isinstance(url, str) else None
    store: SqliteStore | PostgresqlStore
    if path is None:
        if synchronous_off:
            raise Misconfigured("synchronous_off is for SQLite: PostgreSQL's durability is its server's own setting")
        store = _open_postgresql(url, clock)
    else:
        if not path.parent.is_dir():
            raise Misconfigured(f"the folder {path.parent} of the database does not exist", hint="create it first")
        refuse_network_file_system(path)
        from fleetwarden.store.sqlite_engine import SqliteStore

        store = SqliteStore(path, clock, synchronous_off=synchronous_off)
    try:
        _refuse_if_elsewhere(store)
        require_capabilities(store)
        if path is not None:
            _take_from_the_dead(store)
    except BaseException:
        store.close()
        raise
    return store


def _refuse_if_elsewhere(store: SqliteStore | PostgresqlStore) -> None:
    """Of a store and its copy exactly one goes on: refuse the one that was left, and one that is not complete yet."""
    moved, arriving = store.read(lambda tx: (tx.epochs.moved_to(), tx.epochs.arriving()))
    if moved:
        raise Misconfigured(
            f"this store was copied to {moved}, which goes on in its place",
            hint="FLEET_STORE_URL names that one; to go back, 'fleetwarden db backup' this one and 'db restore' it",
        )
    if arriving:
        raise Misconfigured(
            "a copy into this store was begun and has not been finished",
            hint="run the same 'fleetwarden db copy' again, it finishes it",
        )


def _take_from_the_dead(store: SqliteStore | PostgresqlStore) -> None:
    """Void what an earlier owner of this file held: the file is ours, so that owner is gone.

    Nobody waits for the end of its leases.  What it had begun is settled by recovery, as everywhere.
    """

    def held(tx: Tx) -> bool:
        return bool(tx.leases.list()) or bool(tx.work.list(Page(state="leased", limit=1)))

    if store.read(held):
        store.transact("void_leases", lambda tx: (tx.leases.void_all(), tx.work.void_all()))


def _open_postgresql(url: str | Callable[[], str], clock: Clock) -> PostgresqlStore:
    try:
        from fleetwarden.store.postgresql_engine import PostgresqlStore
    except ImportError as error:
        raise Misconfigured(
            f"the PostgreSQL driver is not installed ({error})", hint="pip install 'fleetwarden[postgres]'"
        ) from error
    return PostgresqlStore(url, clock)


def open_bell(url: str | Callable[[], str], clock: Clock, *, plane: str) -> PostgresqlBell | None:
    """Wake-ups between the planes at `url`, for the plane of that name; None where there is only one plane."""
    if isinstance(url, str) and sqlite_path(url) is not None:
        return None
    from fleetwarden.store.postgresql_bell import PostgresqlBell

    return PostgresqlBell(url, clock, plane=plane)
