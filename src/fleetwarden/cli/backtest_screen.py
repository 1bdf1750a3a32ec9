"""A backtest as a screen: the blocks side by side, how the counts went, and what changed them.

Pure: a comparison in, lines out.
"""

from __future__ import annotations

import numpy as np

from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import instant_of, shown
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.lab.backtest import Backtest
from fleetwarden.lab.comparison import Comparison
from fleetwarden.lab.report import lines, span_words

__all__ = ["show"]

BARS = " ▁▂▃▄▅▆▇█"
BARS_SHOWN = 60
ACTIONS_SHOWN = 12


def show(screen: Screen, found: Comparison) -> None:
    """All of it."""
    ticks = found.load.ticks
    began, ended = _at(int(ticks.times[0])), _at(int(ticks.times[-1]))
    empty = f"{found.empty_ticks:,} without a sample" if found.empty_ticks else "a sample at each"
    screen.line(
        f"{found.service} · {found.source} · {began} to {ended} ({span_words(found.seconds)}) ·"
        f" {len(ticks.times):,} ticks, one every {ticks.step_us / SECOND:g} s, {empty}"
    )
    names = [name for name, _ in found.runs]
    screen.table(("", *names), lines(found), indent=2)
    _bars(screen, found)
    for name, run in found.runs:
        _changes(screen, name, run)
    for note in found.notes:
        screen.line(f"  · {note}", indent=4)


def _at(micros: int) -> str:
    return shown(instant_of(micros).isoformat(), None)


def _bars(screen: Screen, found: Comparison) -> None:
    """Need and counts over time, each bar the highest of its stretch; a blank: no sample."""
    top = max(1, int(found.load.needed.max()), *(run.highest for _, run in found.runs))
    rows = [("needed", found.load.needed), *((name, run.replicas) for name, run in found.runs)]
    width = max(len(name) for name, _ in rows)
    for name, counts in rows:
        parts = np.array_split(counts, min(BARS_SHOWN, len(counts)))
        bars = "".join(_bar(int(part.max()), top) for part in parts)
        screen.line(f"  {name:<{width}}  {bars}  highest {int(counts.max()):,}")


def _bar(count: int, top: int) -> str:
    return BARS[0] if count < 0 else BARS[1 + min(7, (count * 8 - 1) // top if count else 0)]


def _changes(screen: Screen, name: str, run: Backtest) -> None:
    reasons = ", ".join(f"{code} {number:,}" for code, number in run.reasons.items())
    screen.line(f"{name}: {len(run.actions):,} changes; ticks by reason: {reasons}")
    shown_now = run.actions if len(run.actions) <= ACTIONS_SHOWN else run.actions[: ACTIONS_SHOWN - 2]
    for one in shown_now:
        screen.line(f"    {_at(one.at)}  {one.before} → {one.after}")
    if len(shown_now) < len(run.actions):
        screen.line(f"    and {len(run.actions) - len(shown_now):,} more: --json has all of them")
