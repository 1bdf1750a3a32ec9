"""Replay one seed and print its whole history: `python -m tests.simulation --seed N [--fault Name] [--until M]`.

With `--until M` all seeds from N to M - 1 are run, and only those that fail are printed.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.history import Verdict, run
from tests.simulation.planted import FAULTS, Planted
from tests.simulation.planted_alerts import ALERTS
from tests.simulation.planted_intents import INTENTS
from tests.simulation.planted_outside import OUTSIDE
from tests.simulation.planted_seals import SEALS
from tests.simulation.planted_versions import VERSIONS
from tests.simulation.planted_votes import VOTES
from tests.simulation.planted_watches import WATCHES
from tests.simulation.planted_wishes import WISHES
from tests.simulation.telling import quiet, told

ALL = (*FAULTS, *WISHES, *INTENTS, *WATCHES, *ALERTS, *OUTSIDE, *VOTES, *VERSIONS, *SEALS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--until", type=int, help="run all seeds up to this one, it excluded")
    parser.add_argument("--fault", choices=sorted(fault.__name__ for fault in ALL), help="plant this fault")
    args = parser.parse_args()
    faults = {fault.__name__: fault for fault in ALL}
    quiet()

    def one(seed: int, *, whole: bool) -> Verdict:
        planted: Planted | None = faults[args.fault]() if args.fault else None
        return run(seed, planted, whole=whole)

    if args.until is None:
        verdict = one(args.seed, whole=True)
        print("\n".join(verdict.lines))
        print(f"\n{verdict.figures}\n" + ("\n".join(verdict.findings) or "every promise held"))
        return 1 if verdict.findings else 0
    began, failed = time.perf_counter(), 0
    for seed in range(args.seed, args.until):
        verdict = one(seed, whole=False)
        if verdict.findings:
            failed += 1
            print(told(verdict))
    count = args.until - args.seed
    print(f"{count} histories, {failed} failed, {(time.perf_counter() - began) / count * 1000:.1f} ms each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
