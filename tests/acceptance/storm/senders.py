"""Who sends alerts in a storm, and who is paged: several connections at once, and a small HTTP receiver.

A sender keeps sending a body until it is answered 202, as Alertmanager does.  It notes what it sent and what was
acknowledged, which is all that it knows; what became of it is read from the database by somebody else.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any

PATIENCE_S = 120.0
CONNECTIONS = 8
Alert = Mapping[str, Any]


class Senders:
    """Sends bodies to a port that may go away and come back.  `answers`: the 202s, by the body's number."""

    def __init__(self, port: int, token: str, bodies: Sequence[Sequence[Alert]], *, again: bool = True) -> None:
        self.sent: Counter[int] = Counter()
        self.answers: dict[int, dict[str, Any]] = {}
        self.statuses: Counter[int] = Counter()
        self._port, self._token, self._bodies, self._again = port, token, bodies, again
        self._lock = threading.Lock()
        self._queue: Queue[int] = Queue()
        for number in range(len(bodies)):
            self._queue.put(number)
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CONNECTIONS)]

    def start(self) -> None:
        for one in self._threads:
            one.start()

    def join(self) -> None:
        until = time.monotonic() + PATIENCE_S
        for one in self._threads:
            one.join(max(0.0, until - time.monotonic()))
            assert not one.is_alive(), f"{len(self.answers)} of {len(self._bodies)} bodies were taken: {self.statuses}"

    @property
    def acknowledged(self) -> int:
        """Bodies that were answered 202."""
        return len(self.answers)

    def _run(self) -> None:
        until = time.monotonic() + PATIENCE_S
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)) as connection:
            while time.monotonic() < until:
                try:
                    number = self._queue.get_nowait()
                except Empty:
                    return
                if not self._send(connection, number) and self._again:
                    self._queue.put(number)
                    time.sleep(0.05)

    def _send(self, connection: http.client.HTTPConnection, number: int) -> bool:
        body = json.dumps({"version": "4", "status": "firing", "alerts": list(self._bodies[number])})
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        with self._lock:
            self.sent[number] += 1
        try:
            connection.request("POST", "/api/fleet/events", body, headers)
            answer = connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return False
        with self._lock:
            self.statuses[answer.status] += 1
            if answer.status == 202:
                self.answers[number] = json.loads(told)
        return answer.status == 202


@contextmanager
def receiver() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A port that takes JSON, and what came."""
    came: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *parts: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], came
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def alert(number: int, service: str, **labels: str) -> Alert:
    """One alert of Alertmanager's; its number makes its fingerprint."""
    return {
        "status": "firing",
        "labels": {"alertname": "ServiceDown", "service": service, "severity": "critical", **labels},
        "annotations": {"summary": f"{service} does not answer"},
        "startsAt": "2026-12-02T10:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": f"{number:016x}",
    }
