"""A small web service: shows itself, answers its health check, and puts jobs into the worker's queue.

GET /           a line about this replica
GET /healthz    200 while it is well, 503 once it is broken
GET /metrics    the same for Prometheus
GET /jobs?n=5   put n jobs into the queue
POST /break     it is broken from now on, until it is started again
"""

import argparse
import json
import os
import signal
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Event
from urllib.parse import parse_qs, urlparse

QUEUE = Path(__file__).parent / "data" / "queue"


def queued(asked: str) -> int:
    """Put so many jobs into the queue, 1000 at most; returns how many."""
    jobs = min(int(asked), 1000) if asked.isdigit() else 1
    for _ in range(jobs):
        name = uuid.uuid4().hex
        draft = QUEUE / f".{name}"
        draft.write_text(json.dumps({"job": name}))
        draft.rename(QUEUE / f"{name}.json")
    return jobs


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--replica", default="0")
    arguments.add_argument("--version", default="1.0")
    arguments.add_argument("--counting", action="store_true", help="new in 1.1: tells how often it was asked")
    options = arguments.parse_args()
    QUEUE.mkdir(parents=True, exist_ok=True)
    asked_for = count()
    broken = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlparse(self.path)
            if url.path == "/healthz":
                self.answer({"ok": not broken.is_set()}, status=503 if broken.is_set() else 200)
            elif url.path == "/metrics":
                self.send_text(f"web_healthy {int(not broken.is_set())}\n", "text/plain; version=0.0.4")
            elif url.path == "/jobs":
                self.answer({"queued": queued(parse_qs(url.query).get("n", ["1"])[0])})
            elif url.path == "/":
                told = {"service": "web", "version": options.version, "replica": options.replica, "pid": os.getpid()}
                self.answer({**told, "asked": next(asked_for) + 1} if options.counting else told)
            else:
                self.answer({"error": "there is no such page"}, status=404)

        def do_POST(self) -> None:
            if self.path == "/break":
                broken.set()
                self.answer({"broken": True})
            else:
                self.answer({"error": "there is no such page"}, status=404)

        def answer(self, body: dict, status: int = 200) -> None:
            self.send_text(json.dumps(body) + "\n", "application/json", status)

        def send_text(self, text: str, kind: str, status: int = 200) -> None:
            sent = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *parts: object) -> None:
            if not any(path in str(parts) for path in ("/healthz", "/metrics")):
                super().log_message(*parts)  # type: ignore[arg-type]

    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"web {options.version} #{options.replica} listens on {options.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
