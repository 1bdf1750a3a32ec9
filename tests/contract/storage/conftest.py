"""Whole stores on both databases, filled with one of everything, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleetwarden.app.running import prepare_data_folder, system_clock
from fleetwarden.app.settings import load_settings
from fleetwarden.app.storage import Storage
from tests.contract.store.records import carried_out, file_approval, grant, prepare, prepare_granted, request, start

if TYPE_CHECKING:
    from fleetwarden.ports.stores import Tx
    from fleetwarden.store.postgresql_engine import PostgresqlStore
    from fleetwarden.store.sqlite_engine import SqliteStore

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))
DAY_US = 86_400_000_000


class Place:
    """A store's address, and the operations on the whole of it."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        (folder / "fleet").mkdir(parents=True)
        environ = {"FLEET_CONFIG": str(folder / "fleet"), "FLEET_DATA_DIR": str(folder / "data")}
        self.settings = load_settings(None, environ | ({"FLEET_STORE_URL": url} if url else {}), working_dir=folder)
        prepare_data_folder(self.settings)
        self.storage = Storage(self.settings, system_clock())
        self.url = self.settings.store_url
        self._opened: list[SqliteStore | PostgresqlStore] = []

    @property
    def database(self) -> Path:
        return self.folder / "data" / "fleetwarden.db"

    def open(self) -> SqliteStore | PostgresqlStore:
        """As a plane opens it; closed when the test ends."""
        store = self.storage.open()[0]
        self._opened.append(store)
        return store

    def filled(self) -> dict[str, int]:
        """One of everything is written; returns numbers of what matters."""
        store = self.open()
        numbers = store.transact("fill", fill)
        store.close()
        return numbers

    def close(self) -> None:
        for store in self._opened:
            store.close()


def fill(tx: Tx) -> dict[str, int]:
    """An ended, a running, a prepared action; a pending, a granted, a begun approval; and the rest."""
    done = carried_out(tx, request("done"))
    running = start(tx, prepare(tx, request("running")), horizon_at=tx.now() + 3 * DAY_US)
    prepared = prepare(tx, request("prepared"))
    pending = file_approval(tx, request("pending"))
    granted = grant(tx, file_approval(tx, request("granted")))
    begun = grant(tx, file_approval(tx, request("begun")))
    acting = prepare_granted(tx, begun)
    fence = tx.leases.acquire("action_executor", "0", "old plane", 1)  # lapsed at once
    assert fence is not None
    tx.tokens.add(name="ana", secret_digest="sha256:1", roles=("admin",), person="Ana")
    tx.journal.write(topic="notice", actor="test", summary="naïve ☃ \\ \t tab\nline", detail={"a": [1, None, "\\N"]})
    tx.reports.append("pass", {"n": 1})
    tx.overrides.put("o", {"kind": "x"}, active=True, by="ana")
    tx.facts.put("fleet_id", "f")
    lifted = tx.freezes.add(owner="ana", reason="lunch")
    tx.freezes.lift(lifted.seq, "ana")
    return {
        "done": done.seq,
        "running": running.seq,
        "prepared": prepared.seq,
        "acting": acting.seq,
        "pending": pending.seq,
        "granted": granted.seq,
        "begun": begun.seq,
        "token": fence.token,
    }


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    """Makes places for stores, each of its own."""
    with ExitStack() as stack:
        made: list[Place] = []

        def place(dialect: str) -> Place:
            folder, url = tmp_path / str(len(made)), ""
            if dialect == "postgresql":
                cluster = request.getfixturevalue("postgresql")
                url = cluster.url(cluster.empty_database())
            made.append(Place(folder, url))
            stack.callback(made[-1].close)
            return made[-1]

        yield place
