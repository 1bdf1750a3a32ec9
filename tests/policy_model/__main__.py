"""Compare the decision with the model on many random cases: `python -m tests.policy_model --cases N --processes N`.

`--first` is the number of the first world (each world holds fifty cases).  Differences are printed whole; exit 1 if
there is one.  Interrupted (Ctrl-C, or a signal to end), it tells what it has compared so far, and exits with 130.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
from collections import Counter

from tests.policy_model.comparing import compare_chunk
from tests.policy_model.worlds import CASES_A_WORLD

WORLDS_A_CHUNK = 200
SHOWN_MAX = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.policy_model", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    last = args.first + -(-args.cases // CASES_A_WORLD)
    chunks = [(at, min(at + WORLDS_A_CHUNK, last)) for at in range(args.first, last, WORLDS_A_CHUNK)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began, cases, failed = time.perf_counter(), 0, 0
    cut, met = False, Counter[str]()
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        try:
            for done in pool.imap_unordered(compare_chunk, chunks):
                cases, met = cases + done.cases, met + done.met
                for difference in done.differences[: max(0, SHOWN_MAX - failed)]:
                    print(difference)
                failed += len(done.differences)
        except KeyboardInterrupt:
            cut = True
            print(f"interrupted before {args.cases:,} cases were compared")
    took = time.perf_counter() - began
    print("\n".join(f"{count:>12,}  {what}" for what, count in met.most_common()))
    print(f"{cases:,} cases, {failed:,} differ, {took / max(1, cases) * 1e6:.1f} us each")
    return 1 if failed else 130 if cut else 0


if __name__ == "__main__":
    sys.exit(main())
