"""A private PostgreSQL for tests: real binaries, a data folder of its own, durable, gone when the tests end.

One cluster serves one pytest worker and is started by the first test that asks for it.  Every caller gets a database
of its own, copied from a template whose schema is in place.  `tests/conftest.py` makes `postgresql` a fixture of all
suites; a test that uses it is marked `@pytest.mark.needs("postgresql")`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from fleetwarden.store import revisions
from fleetwarden.store.schema import METADATA
from scripts.components import COMPONENTS

_PR_SET_PDEATHSIG = 1
_START_S_MAX = 60.0


class Cluster:
    """A running server, and databases in it."""

    def __init__(self, port: int, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self.port = port
        self._start = start
        self._server = start()
        self._numbers = itertools.count(1)
        self._template = ""
        self._spare: list[str] = []
        self._mutex = threading.Lock()

    @property
    def pid(self) -> int:
        return self._server.pid

    def stop(self, number: int) -> None:
        """End the server; it is not started again by itself."""
        self._server.send_signal(number)
        try:
            self._server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def start_again(self) -> None:
        """Start a server that was stopped, over the same data."""
        self._server = self._start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection in autocommit mode."""
        return psycopg.connect(self.url(database), autocommit=True)

    def empty_database(self) -> str:
        """The name of a new database without tables."""
        return self._create("template1")

    def database(self) -> str:
        """The name of a new database with today's schema."""
        with self._mutex:
            if not self._template:
                self._template = self.empty_database()
                revisions.ensure_postgresql(lambda: self.connect(self._template), "the template")
        return self._create(self._template)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[str]:
        """A database with today's schema and no rows, used again by whoever comes next: much cheaper than a new one."""
        with self._mutex:
            name = self._spare.pop() if self._spare else None
        name = name or self.database()
        yield name
        for backend in self.backends(name):
            self.terminate(backend)
        emptied = "; ".join(f'DELETE FROM "{table.name}"' for table in reversed(METADATA.sorted_tables))
        with self.connect(name) as connection:
            connection.execute(emptied.encode())
        with self._mutex:
            self._spare.append(name)

    def drop(self, database: str) -> None:
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE "{database}" WITH (FORCE)'.encode())

    def backends(self, database: str) -> list[int]:
        """Process ids of the server's side of all connections to that database."""
        with self.connect() as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", [database]).fetchall()
        return [pid for (pid,) in rows]

    def terminate(self, backend: int) -> None:
        """End one connection from the server's side."""
        with self.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])

    def _create(self, template: str) -> str:
        name = f"t{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        return name


@contextlib.contextmanager
def cluster(beside: str = "", trusted: str = "") -> Iterator[Cluster]:
    """Start a server and end it, by its process id, when the block is left.

    `beside`: another address to listen on, and `trusted`: the network from which that one is asked.
    """
    binaries = COMPONENTS["postgresql"].find()
    if binaries is None:
        raise RuntimeError(COMPONENTS["postgresql"].how_to_get)
    folder = Path(tempfile.mkdtemp(prefix="fw-postgresql-"))
    try:
        account = _account(folder)
        _initialise(binaries, folder, account)
        if beside:
            with (folder / "data" / "postgresql.conf").open("a") as file:
                file.write(f"listen_addresses = '127.0.0.1,{beside}'\n")
            with (folder / "data" / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {trusted} trust\n")
        port = _free_port()

        def start() -> subprocess.Popen[bytes]:
            with (folder / "log").open("ab") as log:
                server = subprocess.Popen(
                    [binaries / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509 -- one system call, no lock
                    **account,
                )
            try:
                _await(server, port, folder / "log")
            except BaseException:
                server.kill()
                server.wait()
                raise
            return server

        running = Cluster(port, start)
        try:
            yield running
        finally:
            running.stop(signal.SIGQUIT)  # at once: its data is thrown away
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _account(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root; then its own account has to, and has to get at its folder."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": folder}


def _initialise(binaries: Path, folder: Path, account: dict[str, Any]) -> None:
    initdb = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres"]
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    subprocess.run([*initdb, *options], check=True, capture_output=True, **account)
    settings = "listen_addresses = '127.0.0.1'\nmax_connections = 200\nfsync = on\nshared_buffers = 32MB\n"
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write(settings)


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    patience = threading.Event()
    for _ in range(int(_START_S_MAX / 0.05)):
        if server.poll() is not None:
            break
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
            return
        patience.wait(0.05)
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _die_with_parent() -> None:
    """A test run that is killed leaves no server behind (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
