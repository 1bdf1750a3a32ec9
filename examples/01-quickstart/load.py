"""A load generator: puts waves of jobs into the worker's queue, and tells the plane how many wait there.

Each wave is `--jobs` jobs within ten seconds, then it is quiet until `--every` seconds are over.  How many jobs wait
is pushed every two seconds with a token that may do nothing else (role ingest).  Where the plane answers, and that
token, it asks of the `fleetwarden` command (FLEETWARDEN names another): so nothing is ever sent to a stranger who
listens on the plane's port.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
QUEUE = HERE / "data" / "queue"
KEPT = HERE / "data" / "load.token"
PUSH_EVERY_S = 2.0
WAVE_S = 10.0
NAME = "quickstart-load"
FLEETWARDEN = os.environ.get("FLEETWARDEN", "fleetwarden")


def ask(*words: str) -> str:
    """One answer of the `fleetwarden` command about this fleet.  Raises OSError with what it said."""
    asked = [FLEETWARDEN, *words, "--config", str(HERE)]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
    return done.stdout.strip()


class Plane:
    """The plane of this fleet: where it answers, and a token that may do nothing but push."""

    def __init__(self) -> None:
        self.url = ""
        self.token = KEPT.read_text().strip() if KEPT.exists() else ""

    def push(self, sample: dict) -> None:
        """Tell it one sample.  Raises OSError: then the address, or the token, is asked for again next time."""
        try:
            self.url = self.url or ask("status", "--address")
            self.token = self.token or self._made()
            self._post(sample)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                self.token = ""
            raise
        except OSError:
            self.url = ""
            raise

    def _post(self, sample: dict) -> None:
        request = urllib.request.Request(
            f"{self.url}/api/fleet/signals",
            data=json.dumps({"samples": [sample]}).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()

    @staticmethod
    def _made() -> str:
        with contextlib.suppress(OSError):  # there was none
            ask("token", "revoke", NAME)
        secret = json.loads(ask("token", "create", NAME, "--role", "ingest", "--json"))["secret"]
        with os.fdopen(os.open(KEPT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secret)
        return str(secret)


def sample_of(waiting: int) -> dict:
    """How many jobs wait, as the plane wants to be told."""
    return {
        "source": NAME,
        "service": "worker",
        "kind": "queue",
        "value": waiting,
        "aggregation": "fleet_total",
        "unit": "jobs",
        "sampled_at": datetime.now(UTC).isoformat(),
    }


def put_job() -> None:
    """One job, whole or not at all."""
    name = uuid.uuid4().hex
    draft = QUEUE / f".{name}"
    draft.write_text(json.dumps({"job": name}))
    draft.rename(QUEUE / f"{name}.json")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=800, help="jobs of one wave")
    arguments.add_argument("--every", type=float, default=120.0, help="seconds from one wave to the next")
    options = arguments.parse_args()
    QUEUE.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    plane = Plane()
    begun, told, put = time.monotonic(), 0.0, 0
    print(f"load: {options.jobs} jobs every {options.every:g} s", flush=True)
    while True:
        now = time.monotonic()
        if now - begun >= options.every:
            begun, put = now, 0
        due = min(1.0, (now - begun) / WAVE_S) * options.jobs
        while put < due:
            put_job()
            put += 1
        if now - told >= PUSH_EVERY_S:
            told = now
            waiting = len(list(QUEUE.glob("*.json")))
            try:
                plane.push(sample_of(waiting))
            except (OSError, subprocess.TimeoutExpired) as error:  # the plane starts, or ends: again in two seconds
                print(f"{waiting} jobs wait, and the plane was not told: {error}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
