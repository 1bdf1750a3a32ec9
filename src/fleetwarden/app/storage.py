"""The store as a whole: backed up, put back, moved to today's schema, moved to PostgreSQL, and let go again.

Everything here works on the store itself, without a plane; only a backup is taken while one runs.  What happened after
a backup is unknown: a restored store begins frozen, in a new epoch, until an admin releases it.  A schema is never
changed before what was there is backed up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import fleetwarden
from fleetwarden.adapters.files.checkpoints import CheckpointFile
from fleetwarden.app.identity import LOCAL_ADMIN, Caller, Role, local_admin, require
from fleetwarden.app.ledger_export import LedgerExport
from fleetwarden.app.settings import Settings
from fleetwarden.controllers import epochs
from fleetwarden.domain.errors import Conflict, Misconfigured, NotFound, StoreUnavailable
from fleetwarden.domain.identifiers import JsonValue, Micros, moment, rfc3339, show_id
from fleetwarden.ledger_verifier import Verifier
from fleetwarden.ports.epochs import Epoch
from fleetwarden.ports.stores import Store, Tx
from fleetwarden.ports.system import Clock
from fleetwarden.store import backups, moving
from fleetwarden.store.backups import Manifest
from fleetwarden.store.opening import open_store, sqlite_path
from fleetwarden.store.schema import REVISIONS

if TYPE_CHECKING:
    from fleetwarden.store.postgresql_engine import PostgresqlStore
    from fleetwarden.store.sqlite_engine import SqliteStore

__all__ = ["EpochOperations", "Storage", "open_migrated"]

FOLDER = "backups"
Item = dict[str, JsonValue]


class EpochOperations:
    """Beginnings of a store, and an admin's word that it may go on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def epochs(self, caller: Caller) -> Item:
        """All of them, newest first."""
        require(caller, Role.VIEWER)
        rows = self._store.read(lambda tx: tx.epochs.all())
        return {"items": [_epoch(one) for one in reversed(rows)], "next": None}

    def release(self, caller: Caller, *, reason: str) -> Item:
        """End the freeze of a restore.  Raises Forbidden, Misconfigured (no reason), Conflict (nothing is held)."""
        require(caller, Role.ADMIN)
        released = self._store.transact("release_epoch", lambda tx: epochs.release(tx, by=caller.person, reason=reason))
        return {"items": [_epoch(one) for one in released], "next": None}


def _epoch(one: Epoch) -> Item:
    return {
        "id": show_id("E", one.seq),
        "at": rfc3339(one.at),
        "kind": one.kind,
        "origin": dict(one.origin),
        "holds": one.holds,
        "released_at": rfc3339(one.released_at),
        "released_by": one.released_by or None,
        "reason": one.reason,
    }


class Storage:
    """What is done with the whole store that these settings name."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._url = settings.store_url
        self._database = sqlite_path(self._url)

    def schema(self) -> Item:
        """`{schema, newest, outdated, newer}`; `schema` is None where there is no store yet."""
        found = self._schema()
        known = found is None or found in REVISIONS
        return {
            "schema": found,
            "newest": REVISIONS[-1],
            "outdated": known and found is not None and found != REVISIONS[-1],
            "newer": not known,
        }

    def _schema(self) -> str | None:
        if self._database is not None:
            return moving.schema_of(self._database)
        from fleetwarden.store import postgresql_transfer

        return postgresql_transfer.revision_of(self._url)

    def back_up(self, file: Path) -> Item:
        """Write a backup; a plane may run.  Raises NotFound (no store), Conflict (`file` exists), StoreUnavailable."""
        return _told(file, self._back_up(file))

    def _back_up(self, file: Path) -> Manifest:
        file = file.absolute()
        if not file.parent.is_dir():
            raise Misconfigured(f"the folder {file.parent} does not exist", hint="make it first")
        version, at = fleetwarden.__version__, self._clock.now()
        if self._database is None:
            return backups.back_up_postgresql(self._url, file, version=version, at=at)
        if not self._database.is_file():
            raise NotFound(f"there is no store {self._database}")
        return backups.back_up_sqlite(self._database, file, version=version, at=at)

    def migrate(self) -> Item:
        """Bring the schema up to date, after a backup.  Raises Misconfigured for a newer one, or while a plane runs."""
        before = self.schema()
        if before["newer"]:
            raise Misconfigured(
                f"the store has schema {before['schema']}, this version knows schemas up to {before['newest']}",
                hint="run the newer version, or restore a backup from before",
            )
        if before["schema"] is None:
            raise NotFound("there is no store yet", hint="the first start makes it, with today's schema")
        store, backup = self.open()
        store.close()
        return {**before, "migrated": before["outdated"], "backup": None if backup is None else str(backup)}

    def open(self) -> tuple[SqliteStore | PostgresqlStore, Path | None]:
        """The store, moved to today's schema, and the backup that was made before that, if it had to be."""
        backup = None
        if self._database is None or self._database.is_file():
            known = self.schema()
            if known["outdated"]:
                backup = self._beside(f"before-schema-{known['newest']}-from-{known['schema']}")
                self._back_up(backup)
        return open_store(self._settings.store_address, self._clock), backup

    def _beside(self, name: str) -> Path:
        folder = self._settings.fleet_data_dir / FOLDER
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"{folder} cannot be made: {error.strerror}") from error
        return folder / f"{name}-{_stamp(self._clock.now())}.backup"

    def restore(self, file: Path, *, replace: bool) -> Item:
        """Put a backup in the place of the store; what is there is kept beside it.

        Raises Conflict (not empty and `replace` is not said, a plane is at work), Misconfigured, StoreUnavailable.
        """
        from fleetwarden.app.running import prepare_data_folder

        prepare_data_folder(self._settings)
        manifest = backups.read_manifest(file)
        kept: Path | None = None
        try:
            if self._database is not None:
                kept = self._beside("replaced")
                begin = _Restored(manifest, file, moving.highest_numbers(self._database))
                moving.restore_sqlite(file, self._database, self._clock, begin, replace=replace, kept=kept)
            else:
                kept = self._restore_postgresql(file, manifest, replace=replace)
        except Conflict as error:
            if error.code == "not_empty":
                raise Conflict(
                    f"{error.message}: nothing was restored",
                    code="not_empty",
                    hint="--replace puts the backup in its place and keeps what is there in the data folder",
                ) from error
            raise
        # What was signed of the replaced ledger goes with it: its newest seals are in no backup.
        CheckpointFile(self._settings.fleet_data_dir).set_aside(self._beside("replaced-ledger").with_suffix(".jsonl"))
        replaced = str(kept) if kept is not None and kept.exists() else None
        return {**_told(file, manifest), "replaced": replaced, "frozen": True}

    def _restore_postgresql(self, file: Path, manifest: Manifest, *, replace: bool) -> Path | None:
        from fleetwarden.store import postgresql_transfer

        highest = postgresql_transfer.highest_numbers(self._url)
        kept = self._beside("replaced") if replace and any(highest.values()) else None
        if kept is not None:
            self._back_up(kept)
        begin = _Restored(manifest, file, highest)
        folder = self._settings.fleet_data_dir
        moving.restore_postgresql(file, self._url, folder, self._clock, begin, replace=replace)
        return kept

    def copy(self, url: str) -> Item:
        """Move the SQLite store to an empty PostgreSQL database; this one is marked and not used any more.

        Raises Misconfigured (not SQLite to PostgreSQL, a plane runs), Conflict (not empty), StoreUnavailable.
        """
        if self._database is None:
            raise Misconfigured("the store is on PostgreSQL already", hint="db backup and db restore move it elsewhere")
        if sqlite_path(url) is not None:
            raise Misconfigured("a store is copied to PostgreSQL: --to postgresql://USER@HOST/DATABASE")
        there = _place(url)
        origin: Mapping[str, JsonValue] = {"from": str(self._database), "to": there}

        def begin(tx: Tx) -> None:
            epochs.begin_copied(tx, origin, by=LOCAL_ADMIN)

        if not moving.moved_away(self._database):
            self.open()[0].close()  # of today's schema, and sound
        found = moving.move_to_postgresql(self._database, url, self._clock, begin, there=there)
        return {
            "from": str(self._database),
            "to": there,
            "rows": sum(one.rows for one in found.values()),
            "tables": {name: {"rows": one.rows, "digest": one.digest} for name, one in sorted(found.items())},
            "ledger": self._proven(url),
        }

    def _proven(self, url: str) -> Item:
        """The verifier's judgement on the sealed ledger that stands there now.  Raises StoreUnavailable (not sound)."""
        verifier, cursor = Verifier(), None
        store = open_store(url, self._clock)
        try:
            ledger = LedgerExport(store, None)
            while True:
                page = ledger.page(local_admin(), cursor)
                for item in page["items"]:
                    verifier.take(item)
                cursor = page["next"]
                if cursor is None:
                    break
        finally:
            store.close()
        report = verifier.end()
        if not report.sound:
            raise StoreUnavailable(
                f"everything was copied, but its sealed ledger does not verify: {'; '.join(report.words())}",
                hint="it did not before, either: 'fleetwarden ledger verify' says more",
            )
        return dict(report.plain())


class _Restored:
    """Begins the epoch of a restore."""

    def __init__(self, manifest: Manifest, file: Path, highest: Mapping[str, int]) -> None:
        self._manifest, self._file, self._highest = manifest, file, highest

    def __call__(self, tx: Tx) -> None:
        origin = {
            "backup": self._file.name,
            "taken_at": rfc3339(self._manifest.at),
            "version": self._manifest.version,
            "schema": self._manifest.revision,
            "source": self._manifest.source,
        }
        epochs.begin_restored(tx, origin, at=self._manifest.at, highest=self._highest, by=LOCAL_ADMIN)


def open_migrated(settings: Settings, clock: Clock) -> SqliteStore | PostgresqlStore:
    """The store of these settings, for whoever goes on with it; an older schema is backed up, then moved up."""
    return Storage(settings, clock).open()[0]


def _told(file: Path, manifest: Manifest) -> Item:
    return {
        "file": str(file),
        "at": rfc3339(manifest.at),
        "schema": manifest.revision,
        "source": manifest.source,
        "rows": manifest.rows,
        "tables": {name: {"rows": one.rows, "digest": one.digest} for name, one in sorted(manifest.tables.items())},
    }


def _stamp(at: Micros) -> str:
    return moment(at).strftime("%Y%m%dT%H%M%S%f")


def _place(url: str) -> str:
    from fleetwarden.store.postgresql_session import place

    return place(url)
