"""The picture of a backtest: need, replicas and actions over time, as SVG that needs nothing from elsewhere.

A month has more ticks than a screen has columns, so each column of the picture shows all ticks that fall into it: the
span between their lowest and highest count, never a chosen one.  Colours are CSS variables of the page around it.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.lab.backtest import Action, Backtest, Load

__all__ = ["picture"]

WIDTH, LEFT, RIGHT = 960, 44, 12
TOP, PLOT, STRIP, FOOT = 14, 200, 26, 24  # heights: margin, counts, actions, labels of time
COLUMNS = WIDTH - LEFT - RIGHT
TITLES_MAX = 400  # more marks than this have no words of their own
_STEPS_S = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 345_600, 604_800, 1_209_600)

Ints = NDArray[np.int64]
Height: TypeAlias = Callable[[float], float]  # from a count to where it is drawn


def picture(name: str, load: Load, run: Backtest, top: int) -> str:
    """One block's picture.  `top`: the count at the upper edge, the same for all that are compared."""
    times = load.ticks.times
    began, span = int(times[0]), max(int(times[-1] - times[0]), 1)
    column = np.minimum((times - began) * COLUMNS // span, COLUMNS - 1)
    edges = np.flatnonzero(np.diff(column, prepend=-1))
    known = load.needed >= 0
    need = np.maximum.reduceat(load.needed, edges)
    low, high = np.minimum.reduceat(run.replicas, edges), np.maximum.reduceat(run.replicas, edges)
    sizes = np.diff(np.append(edges, len(column)))
    short = np.add.reduceat((known & (run.ready < load.needed)).astype(np.float64), edges) / sizes
    blind = ~np.logical_or.reduceat(known, edges)
    x = LEFT + column[edges].astype(np.float64)
    ends = np.append(x[1:], float(LEFT + COLUMNS))

    def y(count: float) -> float:
        return TOP + PLOT * (1 - count / top)

    height = TOP + PLOT + STRIP + FOOT
    said = f"{name}: replicas from {run.lowest} to {run.highest}, {len(run.actions)} changes"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(said)}">',
        *_grid(top, y),
        *_hours(began, span),
        "".join(f'<rect class="blind" x="{a:g}" y="{TOP}" width="{b - a:g}" height="{PLOT}"/>' for a, b in _runs(
            blind, x, ends)),
        f'<path class="need" d="{_area(x, ends, need, y)}"/>',
        f'<path class="band" d="{_band(x, ends, low, high, y)}"/>',
        f'<path class="count" d="{_line(x, ends, run.replicas[edges], y)}"/>',
        f'<path class="short" d="{_bars(x, ends, short)}"/>',
        *_marks(run.actions, began, span),
        "</svg>",
    ]  # fmt: skip
    return "".join(parts)


def _grid(top: int, y: Height) -> Iterator[str]:
    step = next(one for size in (1, 10, 100, 1000, 10_000) for one in (size, 2 * size, 5 * size) if top / one <= 5)
    for count in range(0, top + 1, step):
        yield f'<path class="grid" d="M{LEFT} {y(count):.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y(count) + 4:.1f}" text-anchor="end">{count}</text>'


def _hours(began: Micros, span: Micros) -> Iterator[str]:
    """Labels of time, in UTC."""
    step = next((one for one in _STEPS_S if span / SECOND / one <= 8), span // SECOND // 6 + 1) * SECOND
    first = -(-began // step) * step
    base = TOP + PLOT + STRIP
    for at in range(first, began + span + 1, step):
        x = LEFT + (at - began) * COLUMNS / span
        when = datetime.fromtimestamp(at / SECOND, UTC)
        words = f"{when:%d %b}" if step >= 86_400 * SECOND else f"{when:%d %b %H:%M}"
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{base}"/>'
        anchor = "start" if x < LEFT + 30 else "end" if x > WIDTH - 60 else "middle"
        yield f'<text x="{x:.1f}" y="{base + 16}" text-anchor="{anchor}">{words}</text>'


def _runs(where: NDArray[np.bool_], x: NDArray[np.float64], ends: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    """Stretches of neighbouring columns, as (from, to)."""
    begun: float | None = None
    for place, holds in enumerate(where):
        if holds and begun is None:
            begun = float(x[place])
        elif not holds and begun is not None:
            yield begun, float(x[place])
            begun = None
    if begun is not None:
        yield begun, float(ends[-1])


def _line(x: NDArray[np.float64], ends: NDArray[np.float64], counts: Ints, y: Height) -> str:
    parts, last = [], None
    for at, count in zip(x, counts, strict=True):
        if last is None:
            parts.append(f"M{at:g} {y(count):.1f}")
        elif count != last:
            parts.append(f"H{at:g}V{y(count):.1f}")
        last = count
    return "".join(parts) + f"H{ends[-1]:g}"


def _area(x: NDArray[np.float64], ends: NDArray[np.float64], counts: Ints, y: Height) -> str:
    """Down to the ground; a hole where the count is below zero, which says that it is unknown."""
    parts: list[str] = []
    last = -1
    for at, count in zip(x, counts, strict=True):
        if count == last:
            continue
        if last >= 0:
            parts.append(f"H{at:g}" + (f"V{y(count):.1f}" if count >= 0 else f"V{y(0):.1f}Z"))
        else:
            parts.append(f"M{at:g} {y(0):.1f}V{y(count):.1f}")
        last = int(count)
    return "".join(parts) + (f"H{ends[-1]:g}V{y(0):.1f}Z" if last >= 0 else "")


def _band(x: NDArray[np.float64], ends: NDArray[np.float64], low: Ints, high: Ints, y: Height) -> str:
    """What the count swept over within a column; nothing where it stood still."""
    moved = np.flatnonzero(high > low)
    return "".join(f"M{x[n]:g} {y(low[n]):.1f}H{ends[n]:g}V{y(high[n]):.1f}H{x[n]:g}Z" for n in moved)


def _bars(x: NDArray[np.float64], ends: NDArray[np.float64], shares: NDArray[np.float64]) -> str:
    """On the ground, one a column: how much of its time had fewer replicas than were needed."""
    ground = TOP + PLOT
    return "".join(
        f"M{x[n]:g} {ground}V{ground - 2 - 6 * shares[n]:.1f}H{ends[n]:g}V{ground}Z" for n in np.flatnonzero(shares > 0)
    )


def _marks(actions: Sequence[Action], began: Micros, span: Micros) -> Iterator[str]:
    """Changes upwards above the middle of the strip, downwards below it: one mark each, or of many how many there are
    in a column."""
    middle = TOP + PLOT + STRIP / 2
    yield f'<path class="grid" d="M{LEFT} {middle:g}H{WIDTH - RIGHT}"/>'
    if len(actions) > TITLES_MAX:
        counted = {
            up: Counter((one.at - began) * COLUMNS // span for one in actions if one.up is up) for up in (True, False)
        }
        most = max(max(places.values(), default=1) for places in counted.values())
        for up, places in counted.items():
            heights = {place: (12 if up else -12) * number / most for place, number in places.items()}
            path = "".join(f"M{LEFT + place:g} {middle:g}v{-height:.1f}" for place, height in sorted(heights.items()))
            yield f'<path class="{"up" if up else "down"}" d="{path}"/>'
        return
    for one in actions:
        x = LEFT + (one.at - began) * COLUMNS / span
        when = datetime.fromtimestamp(one.at / SECOND, UTC)
        yield (
            f'<path class="{"up" if one.up else "down"}" d="M{x:.1f} {middle:g}v{-10 if one.up else 10}">'
            f"<title>{when:%Y-%m-%d %H:%M:%S} UTC  {one.before} → {one.after}</title></path>"
        )
