"""A worker: takes jobs from the queue one by one.  `--check` says whether it still takes them (its health check).

The heartbeat file is touched on every round; a check that finds it older than ten seconds fails.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

DATA = Path(__file__).parent / "data"
QUEUE, TAKEN = DATA / "queue", DATA / "taken"
HEARTBEAT_AGE_MAX_S = 10.0


def take(replica: str) -> None:
    """One job: claimed by renaming, so that no two workers take the same one."""
    for path in sorted(QUEUE.glob("*.json")):
        claimed = TAKEN / f"{replica}-{path.name}"
        try:
            path.rename(claimed)
        except FileNotFoundError:
            continue
        job = json.loads(claimed.read_text())
        time.sleep(0.05)
        claimed.unlink()
        print(f"done {job['job']}", flush=True)
        return
    time.sleep(0.5)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--replica", default="0")
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    heartbeat = DATA / f"worker-{options.replica}.heartbeat"
    if options.check:
        fresh = heartbeat.exists() and time.time() - heartbeat.stat().st_mtime < HEARTBEAT_AGE_MAX_S
        sys.exit(0 if fresh else 1)
    for folder in (QUEUE, TAKEN):
        folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"worker #{options.replica} drains {QUEUE.name}", flush=True)
    while True:
        heartbeat.touch()
        take(options.replica)


if __name__ == "__main__":
    main()
