"""Wake-ups between planes by LISTEN and NOTIFY, over two connections of their own.

Nothing rests on it: a name that is lost is found by the next poll.  So it never holds up a commit (names are rung by a
thread afterwards, each once however often it was asked for), never raises into a controller, and comes back by itself
when the server does, telling its listener that something may have been missed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

import psycopg
import structlog

from fleetwarden.domain.errors import FleetError
from fleetwarden.ports.system import Clock
from fleetwarden.store.postgresql_session import Address, connect
from fleetwarden.store.statements import Row

__all__ = ["PostgresqlBell"]

log = structlog.get_logger(__name__)
CHANNEL = b"fleetwarden_wakes"
LISTEN_S = 1.0  # between looks whether it is to end; a wake-up is heard at once
COME_BACK_S = 1.0
_RING = b"SELECT pg_notify('fleetwarden_wakes', hashtext(current_schema())::text || '/' || %s || '/' || %s)"
_SCHEMA = b"SELECT hashtext(current_schema())::text"


class PostgresqlBell:
    """Implements `ports.planes.Bell` on the database at `url`.  `plane`: this one's name; its own rings are ignored."""

    def __init__(self, url: Address, clock: Clock, *, plane: str) -> None:
        self._url = url
        self._clock = clock
        self._plane = plane
        self._asked: set[str] = set()
        self._lock = Lock()
        self._to_do = Event()
        self._over = Event()
        self._threads: list[Thread] = []

    def ring(self, name: str) -> None:
        with self._lock:
            self._asked.add(name)
        self._to_do.set()

    def start(self, heard: Callable[[str], None]) -> None:
        for name, run in (("bell-listens", lambda: self._listen(heard)), ("bell-rings", self._ring_on)):
            thread = Thread(target=run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        self._over.set()
        self._to_do.set()
        for thread in self._threads:
            thread.join(2 * LISTEN_S)

    def _listen(self, heard: Callable[[str], None]) -> None:
        while not self._over.is_set():
            try:
                with connect(self._url) as connection:
                    [schema] = connection.execute(_SCHEMA).fetchone() or ("",)
                    connection.execute(b"LISTEN " + CHANNEL)
                    heard("")  # what was rung before this moment is not heard any more
                    self._hear(connection, str(schema), heard)
            except (psycopg.Error, FleetError) as error:
                log.warning("not listening for wake-ups", error=str(error))
                self._clock.wait(self._over, COME_BACK_S)

    def _hear(self, connection: psycopg.Connection[Row], schema: str, heard: Callable[[str], None]) -> None:
        while not self._over.is_set():
            for notice in connection.notifies(timeout=LISTEN_S):
                where, _, rest = notice.payload.partition("/")
                plane, _, name = rest.rpartition("/")
                if where == schema and plane != self._plane and name:
                    heard(name)
                if self._over.is_set():
                    return

    def _ring_on(self) -> None:
        connection: psycopg.Connection[Row] | None = None
        while not self._over.is_set():
            self._to_do.wait()
            self._to_do.clear()
            with self._lock:
                names, self._asked = sorted(self._asked), set()
            if not names:
                continue
            try:
                connection = connection or connect(self._url)
                for name in names:
                    connection.execute(_RING, [self._plane, name])
            except (psycopg.Error, FleetError) as error:  # the polls of the others find it
                log.warning("no wake-up was sent", names=names, error=str(error))
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                connection = None
        if connection is not None:
            connection.close()
