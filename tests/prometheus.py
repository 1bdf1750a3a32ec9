"""A private Prometheus for tests, and something for it to scrape.

The real server, on a loopback port, with a data folder of its own and a scrape every second; gone when its test ends.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts.components import COMPONENTS

_START_S_MAX = 60.0
PATIENCE_S = 60.0


def eventually(holds: Callable[[], bool], what: str = "it did not happen") -> None:
    """Wait for what real servers bring about in their own time."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Exporter:
    """Serves what a test sets as metrics, by (name, service)."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.measured_s_ago: float | None = None  # else each sample is dated by its scrape
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ago = exporter.measured_s_ago
                dated = "" if ago is None else f" {int((time.time() - ago) * 1000)}"
                lines = [
                    f'{name}{{service="{service}"}} {value}{dated}'
                    for (name, service), value in exporter.values.items()
                ]
                body = ("\n".join(lines) + "\n").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def prometheus(folder: Path, *targets: int) -> Iterator[str]:
    """The address of a server that scrapes these loopback ports every second."""
    binary = COMPONENTS["prometheus"].find()
    assert binary is not None
    listed = ", ".join(f"'127.0.0.1:{port}'" for port in targets)
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: tests, static_configs: [{{targets: [{listed}]}}]}}]\n"
    )
    port = free_port()
    command = [
        str(binary), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + _START_S_MAX
        while not _answers(f"{address}/-/ready"):
            assert server.poll() is None, "prometheus ended at once"
            assert time.monotonic() < until, "prometheus does not answer"
            time.sleep(0.05)
        yield address
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """Something to scrape, for one test."""
    made = Exporter()
    yield made
    made.close()
