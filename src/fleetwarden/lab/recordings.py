"""Recorded signals, and the ticks at which a replay sees them.  A gap stays a gap, never a zero.

A recording is what was measured, whoever measured it.  `at_ticks` makes of it what an autoscaler would have had in hand
at each of its ticks, by the rules that hold live: a sample that is no number, absurd or too old is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signal_rules import VALUE_MAX
from fleetwarden.domain.signals import AGE_MAX_S

__all__ = ["TICKS_MAX", "Recording", "Ticks", "at_ticks"]

TICKS_MAX = 5_000_000
GAP = 1.5  # rows further apart than so many steps have a gap between them

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recording:
    """`times`: ascending, since 1970; `values`: by signal, one a time, NaN where nothing was measured; `replicas`: how
    many there were at the time, where that is known; `name`: what findings call it."""

    name: str
    times: Sequence[Micros]
    values: Mapping[str, Sequence[float]]
    replicas: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Ticks:
    """`values`: by signal, what a tick has in hand, NaN for no sample; `measured`: by signal, when it was measured, or
    None where every tick has a measurement of its own.  `unusable`: values that were no usable number; `filled`: ticks
    without any sample; `step_us`: the usual distance between two ticks."""

    times: Ints
    values: Mapping[str, Floats]
    replicas: Floats | None
    step_us: Micros
    unusable: int
    filled: int
    measured: Mapping[str, Ints] | None = None


def at_ticks(recording: Recording, *, every_us: Micros | None = None, max_age_s: float = AGE_MAX_S) -> Ticks:
    """What the ticks see.

    Without `every_us` each row is a tick, and a gap gets ticks without a sample at the recording's own pace.  With it
    there is a tick every so often, which sees the newest sample that is at most `max_age_s` old; it may be the one that
    the tick before has seen.  Raises Misconfigured for fewer than two rows, and for more than TICKS_MAX ticks.
    """
    times = np.array(recording.times, np.int64)
    if len(times) < 2:
        raise Misconfigured(
            f"{recording.name} has {len(times)} row{'' if len(times) == 1 else 's'} of samples",
            hint="a replay needs two or more",
        )
    columns: dict[str, Floats] = {}
    unusable = 0
    for name, values in recording.values.items():
        column = np.array(values, np.float64)
        with np.errstate(invalid="ignore"):
            fit = np.isfinite(column) & (column >= 0) & (column <= VALUE_MAX)
        unusable += int((~fit & ~np.isnan(column)).sum())
        columns[name] = np.where(fit, column, np.nan)
    if all(bool(np.isnan(one).all()) for one in columns.values()):
        raise Misconfigured(f"{recording.name} has no usable sample at all", hint="values are numbers of 0 or more")
    replicas = None if recording.replicas is None else np.array(recording.replicas, np.float64)
    gaps = np.sort(np.diff(times))
    step = int(gaps[(len(gaps) - 1) // 2])  # of two in the middle the shorter: half of few rows may be gaps
    if every_us is None:
        return _row_by_row(recording.name, times, columns, replicas, step, unusable)
    return _every(recording.name, times, columns, replicas, every_us, max_age_s, unusable)


def _row_by_row(
    name: str, times: Ints, columns: Mapping[str, Floats], replicas: Floats | None, step: Micros, unusable: int
) -> Ticks:
    gaps = np.diff(times)
    lacking = np.where(gaps > GAP * step, np.rint(gaps / step).astype(np.int64) - 1, 0)
    filled = int(lacking.sum())
    _few_enough(name, len(times) + filled)
    if filled:
        places = np.arange(len(times)) + np.concatenate(([0], np.cumsum(lacking)))
        total = len(times) + filled
        rows = np.repeat(np.arange(len(times)), np.concatenate((lacking + 1, [1])))
        offset = np.arange(total) - places[rows]
        spread = np.concatenate((gaps / (lacking + 1), [0.0]))
        full = times[rows] + np.rint(offset * spread[rows]).astype(np.int64)
        seen = offset == 0
        columns = {key: np.where(seen, one[rows], np.nan) for key, one in columns.items()}
        replicas = None if replicas is None else replicas[rows]
        times = full
    return Ticks(times=times, values=columns, replicas=replicas, step_us=step, unusable=unusable, filled=filled)


def _every(
    name: str,
    times: Ints,
    columns: Mapping[str, Floats],
    replicas: Floats | None,
    every: Micros,
    max_age_s: float,
    unusable: int,
) -> Ticks:
    count = int((times[-1] - times[0]) // every) + 1
    _few_enough(name, count)
    if count < 2:
        raise Misconfigured(
            f"{name} is shorter than one interval of {every / SECOND:g} s", hint="give a shorter --every, or none"
        )
    ticks = times[0] + np.arange(count, dtype=np.int64) * every
    found: dict[str, Floats] = {}
    measured: dict[str, Ints] = {}
    none = np.ones(count, np.bool_)
    for key, column in columns.items():
        fit = np.flatnonzero(~np.isnan(column))
        place = np.searchsorted(times[fit], ticks, side="right") - 1
        chosen = fit[np.maximum(place, 0)] if len(fit) else np.zeros(count, np.int64)
        usable = (place >= 0) & (ticks - times[chosen] <= int(max_age_s * SECOND))
        found[key], measured[key] = np.where(usable, column[chosen], np.nan), times[chosen]
        none &= ~usable
    held = None if replicas is None else replicas[np.searchsorted(times, ticks, side="right") - 1]
    return Ticks(
        times=ticks,
        values=found,
        replicas=held,
        step_us=every,
        unusable=unusable,
        filled=int(none.sum()),
        measured=measured,
    )


def _few_enough(name: str, ticks: int) -> None:
    if ticks > TICKS_MAX:
        raise Misconfigured(
            f"{name} would be {ticks:,} ticks, at most {TICKS_MAX:,} can be replayed",
            hint="take a part of it, or a longer --every; times in milliseconds look like this, too",
        )
