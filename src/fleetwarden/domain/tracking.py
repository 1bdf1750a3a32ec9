"""Target tracking, columnar: the whole fleet in, a verdict for every service out.

One service is a table of length one, so that there is one truth.  Whole columns are computed at once; nothing is built
per service unless a service wants to move.  A value that is missing, absurd or about something else moves nothing, and
can disturb no other row.  Pure: the time is an argument, and what is remembered is handed in and brought up to date.

The equation (published with the reference controller): desired = ceil(effective_current x per_replica / target), where
effective_current = max(current, 1), and a total of the fleet is first divided by effective_current.  Without `behavior`
the order is: recommend, stabilization window, bounds, deadband, streak, step cap; the cooldown is the ledger's to say.
With it, HPA's own: tolerance, windows, bounds, and the rates that `tracking_rates` applies to a row that moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.tracking_columns import (
    BlockTable,
    Bools,
    Floats,
    Ints,
    Reason,
    Seen,
    Verdicts,
    Words,
    ceil_exact,
    within_edges,
)
from fleetwarden.domain.tracking_memory import Memory

__all__ = ["evaluate", "new_memory"]

OPEN = 255  # no reason yet
_KEEPS = np.zeros(256, np.bool_)  # by reason: whether it says nothing of the load
_KEEPS[[Reason.NOT_ASKED, Reason.WARMING, Reason.NO_NEWS]] = True


@dataclass(slots=True)
class _Recommended:
    """By row: the equation's answer over all usable signals, and what is known of the signals.

    `count`: what all of them say together; `asked`: the same, but what was used before asks for no more replicas.
    """

    count: Ints
    asked: Ints
    usable: Bools  # at least one
    missing: Bools  # at least one is not usable
    unasked: Bools  # at least one was not asked for
    news: Bools  # at least one usable sample is newer than what earlier ticks used
    again: Bools  # at least one is what an earlier tick has used
    within: Bools  # the deciding signal lies within its deadband or tolerance
    mixed: Bools  # at least one is an average over replicas
    pressure: Floats
    winner: Ints


def new_memory(table: BlockTable) -> Memory:
    """A memory of nothing, for this table."""
    return Memory(len(table.pair_row), table.window_us)


def evaluate(table: BlockTable, seen: Seen, memory: Memory, now: Micros) -> Verdicts:
    """One tick.

    Rows whose `reason` is set are answered with it.  A sample that is not usable resets its row's streak; one that was
    not asked for, or that earlier ticks have used already, leaves it alone.
    """
    found = _recommend(table, seen)
    held = _windowed(table, seen, memory, found, now)
    return _decide(table, seen, memory, found, held, now)


def _recommend(table: BlockTable, seen: Seen) -> _Recommended:
    """The equation, pair by pair, and the highest answer of each row's usable pairs."""
    row = slice(None) if table.single else table.pair_row  # a slice is a view: nothing is copied
    current = seen.current[row]
    effective = np.maximum(current, 1).astype(np.float64)
    with np.errstate(all="ignore"):
        usable = (seen.fault == 0) & np.isfinite(seen.value) & (seen.value >= 0)
        total = np.where(seen.per_replica, seen.value * effective, seen.value)
        each = np.where(seen.per_replica, seen.value, seen.value / effective)
        quotient = total / table.pair_target
        count = ceil_exact(quotient)
        ratio = each / table.pair_target
        within = within_edges(quotient, effective, table.lower_edge[row], table.upper_edge[row]) & (current > 0)
        asleep = table.sleeps[row] & (total <= table.activation[row])
    np.copyto(count, current, where=within)
    count[asleep] = 0
    within &= ~asleep
    asked = count.copy()
    np.minimum(count, current, out=asked, where=seen.again)
    unusable = ~usable
    count[unusable] = asked[unusable] = -1
    ratio[unusable] = np.nan
    asked_for = seen.fault != 2
    missing = (unusable & asked_for) | seen.no_down
    if table.single:
        pairs = np.arange(len(table), dtype=np.int64)
        news = usable & ~seen.again
        return _Recommended(
            count=np.maximum(count, 0),
            asked=np.maximum(asked, 0),
            usable=usable,
            missing=missing,
            unasked=~asked_for,
            news=news,
            again=seen.again,
            within=within,
            mixed=seen.per_replica,
            pressure=ratio,
            winner=pairs,
        )
    row, start = table.pair_row, table.pair_start
    best = np.maximum.reduceat(count, start)
    rank = np.where(count == best[row], np.arange(len(count), dtype=np.int64), len(count))
    winner = np.minimum.reduceat(rank, start)
    return _Recommended(
        count=np.maximum(best, 0),
        asked=np.maximum(np.maximum.reduceat(asked, start), 0),
        usable=np.logical_or.reduceat(usable, start),
        missing=np.logical_or.reduceat(missing, start),
        unasked=np.logical_or.reduceat(~asked_for, start),
        news=np.logical_or.reduceat(usable & ~seen.again, start),
        again=np.logical_or.reduceat(seen.again, start),
        within=within[winner],
        mixed=np.logical_or.reduceat(seen.per_replica, start),
        pressure=ratio[winner],
        winner=winner,
    )


def _windowed(table: BlockTable, seen: Seen, memory: Memory, found: _Recommended, now: Micros) -> Ints:
    """The recommendations, held by those of the stabilization windows: up to the lowest, down to the highest."""
    rows = memory.windowed
    if not len(rows):
        return found.asked
    seen_at_all = seen.status != Words.UNOBSERVED
    open_ = seen.reason == OPEN
    usable = found.news & open_
    blind = seen_at_all & (~open_ | found.missing)
    lowest, highest = memory.extremes(now, table.up_window_us, table.down_window_us)
    wanted, current = found.asked[rows], seen.current[rows]
    lowest, highest = np.minimum(lowest, wanted), np.maximum(highest, wanted)
    held = found.asked.copy()
    held[rows] = np.clip(current, lowest, np.maximum(lowest, highest))
    memory.remember(now, found.count, seen.current, usable, blind)
    return held


def _decide(table: BlockTable, seen: Seen, memory: Memory, found: _Recommended, held: Ints, now: Micros) -> Verdicts:
    current, low = seen.current, table.floors(now)
    bounded = np.minimum(np.maximum(held, low), table.high)
    outside = (current < low) | (current > table.high)
    direction = (bounded > current).view(np.int8) - (bounded < current).view(np.int8)
    reason = _standing(seen, found)
    evaluated = reason == OPEN
    up, down = direction > 0, direction < 0
    measured = memory.fresh | ((seen.fault == 0) & ~seen.again)
    each = np.ones(len(table), np.bool_) if table.single else np.logical_and.reduceat(measured, table.pair_start)

    warming = (table.warmup_us > seen.youngest_us) & found.mixed & (direction != 0)
    _set(reason, evaluated & warming, Reason.WARMING)
    _set(reason, evaluated & down & found.missing, Reason.BLOCKED_DOWN)
    _set(reason, evaluated & down & found.unasked, Reason.NOT_ASKED)
    waiting = (found.asked < found.count) & (found.asked == current) & (direction == 0) & (current < table.high)
    _set(reason, waiting, Reason.NO_NEWS)  # an older sample holds the count: it is for its next one to say
    counting = reason == OPEN
    grows = up | outside | each  # fewer need a sample of every signal, or the quickest would count for all
    count = memory.count * (direction == memory.streak)
    count += grows
    count *= direction != 0
    short = count < table.down_samples
    np.less(count, table.up_samples, out=short, where=up)
    np.less(count, 1, out=short, where=outside)

    still = counting & (direction == 0)
    _set(reason, still & (current == table.high) & (held > table.high), Reason.AT_MAX)
    _set(reason, still & (current == low) & (held < low), Reason.AT_MIN)
    _set(reason, still & (held != found.asked), Reason.WINDOW)
    _set(reason, still & (current == 0) & (found.count == 0) & (table.low == 0), Reason.INACTIVE)
    _set(reason, still & found.within, Reason.DEADBAND)
    _set(reason, still, Reason.AT_TARGET)
    _set(reason, counting & short, Reason.STABILIZING)
    _set(reason, counting & up & ((seen.ready < current) | (seen.existing < current)), Reason.NOT_PLACED)
    _set(reason, up, Reason.SCALE_UP)
    _set(reason, down, Reason.SCALE_DOWN)

    keeps = counting | _KEEPS[reason]
    forgets = ~keeps
    memory.streak, memory.count = memory.streak.copy(), memory.count.copy()
    np.copyto(memory.streak, direction, where=counting)
    np.copyto(memory.count, count, where=counting)
    memory.streak[forgets] = memory.count[forgets] = 0
    if not table.single:
        goes_on = keeps & ~(counting & (grows | (direction == 0)))
        memory.fresh = measured & goes_on[table.pair_row]

    desired = current.copy()
    _go(table, np.flatnonzero(reason == Reason.SCALE_UP), bounded, desired, up=True)
    _go(table, np.flatnonzero(reason == Reason.SCALE_DOWN), bounded, desired, up=False)
    verdicts = Verdicts(
        desired=desired,
        raw=np.where(found.usable, found.count, current),
        reason=reason,
        streak=memory.streak.copy(),
        count=memory.count.copy(),
        pressure=found.pressure,
        winner=np.where(found.usable, found.winner, -1),
    )
    _afford(table, current, verdicts)
    return verdicts


def _standing(seen: Seen, found: _Recommended) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """What was known before the equation: reasons that are set, states that are no evidence, signals that are none."""
    reason = seen.reason.copy()
    _set(reason, seen.status == Words.UNOBSERVED, Reason.SKIP_UNOBSERVED)
    _set(reason, seen.status == Words.UNKNOWN, Reason.SKIP_UNKNOWN)
    _set(reason, seen.status == Words.DOWN, Reason.SKIP_DOWN)
    _set(reason, ~found.news & found.again & ~found.missing, Reason.NO_NEWS)
    _set(reason, ~found.usable & found.unasked & ~found.missing, Reason.NOT_ASKED)
    _set(reason, ~found.news, Reason.SKIP_METRICS)
    return reason


def _set(reason: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], where: Bools, what: Reason) -> None:
    """Give this reason to the rows that have none yet."""
    np.copyto(reason, np.uint8(what), where=where & (reason == OPEN))


def _go(table: BlockTable, rows: Ints, bounded: Ints, desired: Ints, *, up: bool) -> None:
    """Bring these rows of `desired`, which stand at the current counts, as near to `bounded` as one step may."""
    amount = (table.up_step if up else table.down_step)[rows]
    percent = (table.up_percent if up else table.down_percent)[rows]
    current = desired[rows]
    exact = np.maximum(1, -(-np.maximum(current, 1) * amount // 100))
    step = np.where(table.with_behavior[rows], np.iinfo(np.int32).max, np.where(percent, exact, amount))
    desired[rows] = np.minimum(bounded[rows], current + step) if up else np.maximum(bounded[rows], current - step)


def _afford(table: BlockTable, current: Ints, verdicts: Verdicts) -> None:
    """Grow no further than the cost ceiling allows; what is there already is never taken away for it."""
    for row in np.flatnonzero(table.costed & (verdicts.reason == Reason.SCALE_UP)):
        cost = table.blocks[row].cost
        assert cost is not None
        most = max(int(current[row]), min(int(verdicts.desired[row]), cost.affordable))
        verdicts.desired[row] = most
        if most == current[row]:
            verdicts.reason[row] = Reason.SKIP_COST
