"""A load generator: puts waves of jobs into the worker's queue, and tells the plane how many wait there.

Each wave is `--jobs` jobs within ten seconds, then it is quiet until `--every` seconds are over.  How many jobs wait
is pushed every two seconds with a token that may do nothing else (role ingest); the first start makes that token with
the admin token that `make up` keeps in the data folder.  PLANE says where the plane answers.
"""

import argparse
import contextlib
import json
import os
import signal
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


def call(method: str, path: str, token: str, body: dict | None = None) -> dict:
    """One request to the plane.  Raises OSError (HTTPError for a refusal)."""
    plane = os.environ.get("PLANE", "http://127.0.0.1:8800")
    request = urllib.request.Request(
        f"{plane}/api/fleet{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read() or b"{}")


def own_token(*, fresh: bool) -> str:
    """The token that may push, made anew if it is not known any more."""
    if KEPT.exists() and not fresh:
        return KEPT.read_text().strip()
    admin = Path(os.environ.get("ADMIN_TOKEN_FILE", HERE.parent.parent / ".fleetwarden" / "admin.token"))
    secret = admin.read_text().strip()
    with contextlib.suppress(urllib.error.HTTPError):  # there was none
        call("DELETE", f"/tokens/{NAME}", secret)
    made = call("POST", "/tokens", secret, {"name": NAME, "roles": ["ingest"]})
    with os.fdopen(os.open(KEPT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(made["secret"])
    return str(made["secret"])


def push(waiting: int) -> None:
    """Tell the plane how many jobs wait."""
    sample = {
        "source": NAME,
        "service": "worker",
        "kind": "queue",
        "value": waiting,
        "aggregation": "fleet_total",
        "unit": "jobs",
        "sampled_at": datetime.now(UTC).isoformat(),
    }
    try:
        call("POST", "/signals", own_token(fresh=False), {"samples": [sample]})
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        call("POST", "/signals", own_token(fresh=True), {"samples": [sample]})


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
                push(waiting)
            except OSError as error:  # the plane starts, or ends: the next one comes in two seconds
                print(f"{waiting} jobs wait, and the plane was not told: {error}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
