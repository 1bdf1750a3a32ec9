"""A clumsy service: accepts connections and crashes now and then, so that there is something to repair.

It lives for 60 to 180 seconds.  CLUMSY_LIFE_S=5 makes it crash after about five.
"""

import argparse
import os
import random
import signal
import socket
import sys
import time


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    options = arguments.parse_args()
    life_s = float(os.environ.get("CLUMSY_LIFE_S") or random.uniform(60, 180))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.create_server(("127.0.0.1", options.port)) as server:
        server.settimeout(0.5)
        print(f"clumsy listens on {options.port}", flush=True)
        until = time.monotonic() + life_s
        while time.monotonic() < until:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            connection.sendall(b"still standing\n")
            connection.close()
    print("tripped over its own feet", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
