"""A process that writes until it is killed: eight threads, each printing the number of every entry once it is told.

python -m tests.contract.store.writer_process URL
"""

from __future__ import annotations

import os
import sys
import threading

from fleetwarden.adapters.system import SystemClock
from fleetwarden.store.opening import open_store


def main(url: str) -> None:
    store = open_store(url, SystemClock())

    def write() -> None:
        while True:
            entry = store.transact(
                "write", lambda tx: tx.journal.write(topic="notice", actor="writer", summary="acknowledged")
            )
            os.write(1, f"{entry.seq}\n".encode())  # one write a line: threads do not mix, nothing is buffered

    for _ in range(8):
        threading.Thread(target=write).start()


if __name__ == "__main__":
    main(sys.argv[1])
