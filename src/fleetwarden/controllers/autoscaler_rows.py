"""What a tick leaves for others to read: a stored row where something changed, and live columns for the rest.

A row is written when a service's reason, streak or wanted count is another than before, all of a tick's in one
transaction; a fleet at rest writes nothing.  What people read of a service is made when they ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from fleetwarden.controllers.autoscaler_report import ServiceEvaluation, words_of
from fleetwarden.controllers.autoscaler_sight import Sight
from fleetwarden.controllers.intent_desk import Put, PutAnswer
from fleetwarden.domain.cooldown import CooldownView
from fleetwarden.domain.identifiers import JsonValue, Micros, rfc3339, seconds
from fleetwarden.domain.signals import NoSample, Reading
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Verdicts
from fleetwarden.domain.tracking_memory import Memory
from fleetwarden.ports.autoscale_rows import AutoscaleRow
from fleetwarden.ports.stores import Store

__all__ = ["Rows", "Told"]

_ANSWERS = {
    PutAnswer.ACCEPTED: "intent_accepted",
    PutAnswer.PROPOSED: "waiting_for_approval",
    PutAnswer.SAME: "intent_stands",
    PutAnswer.WAITING: "waiting_for_approval",
    PutAnswer.DENIED: "denied",
    PutAnswer.REPEATED: "denied",
    PutAnswer.STALE: "stale",
    PutAnswer.BUSY: "busy",
    PutAnswer.COOLDOWN: "skip_cooldown",
    PutAnswer.UNKNOWN_COOLDOWN: "skip_unknown_cooldown",
    PutAnswer.UNIT: "contract",
    PutAnswer.SUSPENDED: "skip_override",
    PutAnswer.DEFERRED: "deferred",
}
_STREAKS = {-1: "down", 0: "", 1: "up"}


class Told:
    """One tick, kept so that any service's evaluation can be told on demand."""

    def __init__(
        self,
        table: BlockTable,
        sight: Sight,
        verdicts: Verdicts,
        puts: Mapping[str, Put],
        cooling: Mapping[str, CooldownView],
        wanting: Collection[str],
        at: Micros,
    ) -> None:
        self.table = table
        self.at = at
        self._sight = sight
        self.verdicts = verdicts
        self.puts = puts
        needed = np.where(verdicts.streak > 0, table.up_samples, table.down_samples)
        self.samples = np.minimum(verdicts.count, needed)  # more than are needed say nothing new
        self._cooling = cooling
        self.wanting = wanting

    def code(self, row: int) -> str:
        """The reason's code, or what the desk answered."""
        name = self.table.names[row]
        put = self.puts.get(name)
        if put is not None:
            return _ANSWERS[put.answer]
        if name in self.wanting:
            return "deferred"
        return Reason(int(self.verdicts.reason[row])).code

    def used(self, row: int) -> dict[str, Micros]:
        """By signal, when the newest sample that was ever used was measured."""
        return self._sight.used_of(self.table, row)

    def of(self, name: str) -> ServiceEvaluation | None:
        """Where that service stood, in numbers and words."""
        row = self.table.index.get(name)
        if row is None:
            return None
        verdicts, columns = self.verdicts, self._sight.columns
        reason, put = Reason(int(verdicts.reason[row])), self.puts.get(name)
        streak, block = int(verdicts.streak[row]), self.table.blocks[row]
        needed = 0 if streak == 0 else (block.up_samples if streak > 0 else block.down_samples)
        readings = self._sight.of(self.table, row)
        numbers: dict[str, JsonValue] = {
            "current": int(columns.current[row]),
            "desired": int(verdicts.desired[row]),
            "desired_raw": int(verdicts.raw[row]),
            "ready": int(columns.ready[row]),
            "samples": int(self.samples[row]),
            "needed": needed,
        }
        until = None if put is None else put.until
        words = words_of(reason, numbers, self._detail(row, name, reason, readings))
        if put is not None:
            words = put.reason
        elif name in self.wanting:
            words = f"{words}; other services come first in this pass"
        if (pause := self._cooling.get(name)) is not None:
            until = pause.until
        return ServiceEvaluation(
            service=name,
            at=self.at,
            code=self.code(row),
            reason=words,
            current=numbers["current"],
            desired=numbers["desired"],
            raw=numbers["desired_raw"],
            ready=numbers["ready"],
            streak=_STREAKS[streak],
            samples=numbers["samples"],
            needed=needed,
            until=until,
            intent="" if put is None or put.row is None else put.row.id,
            signals=tuple(
                _signal(one, target.target, self.at) for one, target in zip(readings, block.signals, strict=True)
            ),
            limits={"min": block.min, "max": block.max},
        )

    def _detail(self, row: int, name: str, reason: Reason, readings: list[Reading]) -> str:
        if (pause := self._cooling.get(name)) is not None:
            return pause.reason
        if reason in (Reason.SKIP_METRICS, Reason.BLOCKED_DOWN):
            told = [f"{one.signal}: {one.reason}" for one in readings if isinstance(one, NoSample)]
            pairs = self.table.pairs_of(row)
            return "; ".join(
                [*told, *(self._sight.thin[n] for n in range(pairs.start, pairs.stop) if n in self._sight.thin)]
            )
        if reason is Reason.EXTERNAL:
            mode = self.table.blocks[row].controller_mode
            return (
                "evaluated only: its mode is observe"
                if mode == "native"
                else f"evaluated only: {mode} writes its count"
            )
        return self._sight.standing.get(row, "")


class Rows:
    """Writes rows where something changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[str, int, int, int]] = {}
        self.told: Told | None = None

    def load(self, table: BlockTable, memory: Memory) -> None:
        """What another life of the autoscaler left: streaks go on, unless a change was made since, and no sample that
        was counted is counted again."""
        rows, last = self._store.read(
            lambda tx: (rows := tx.autoscale_rows.all(), tx.cooldowns.last_scales(list(rows)))
        )
        self._known = {name: (one.reason, one.streak, one.count, one.desired) for name, one in rows.items()}
        for name, one in rows.items():
            if (row := table.index.get(name)) is None:
                continue
            memory.changed_at[row] = last.get(name, 0)
            if last.get(name, 0) <= one.at:
                memory.streak[row], memory.count[row] = one.streak, one.count
            pairs = table.pairs_of(row)
            memory.last_used[pairs] = [one.used.get(signal, 0) for signal in table.pair_signal[pairs]]
            memory.series.usual[pairs] = [_series(one, signal) for signal in table.pair_signal[pairs]]
            memory.total[row] = one.current

    def forget_others(self, names: Collection[str]) -> None:
        """Remove rows of services that are not evaluated any more."""
        kept = frozenset(names)
        gone = [name for name in self._known if name not in kept]
        if gone:
            self._store.transact("forget_autoscale_rows", lambda tx: tx.autoscale_rows.forget(gone))
        for name in gone:
            del self._known[name]

    def note(self, told: Told, verdicts: Verdicts) -> int:
        """Keep this tick, and write the rows that differ from what is stored; returns how many."""
        before, self.told = self.told, told
        table = told.table
        changed = range(len(table)) if before is None or before.table is not table else _differing(before, told)
        fresh = []
        for row in changed:
            name = table.names[row]
            state = (
                told.code(row), int(verdicts.streak[row]), int(told.samples[row]), int(verdicts.desired[row])
            )  # fmt: skip
            if state[0] == Reason.NO_NEWS.code and name in self._known:
                continue  # between samples, what the last one said still stands
            if self._known.get(name) != state or (before is not None and _said_otherwise(before, told, row)):
                one = told.of(name)
                assert one is not None
                fresh.append(_row(one, state, told.used(row)))
                self._known[name] = state
        if fresh:
            self._store.transact("autoscale_rows", lambda tx: tx.autoscale_rows.put(fresh))
        return len(fresh)

    @staticmethod
    def counted(told: Told, verdicts: Verdicts) -> dict[str, int]:
        """Services by code."""
        numbers = np.bincount(verdicts.reason, minlength=len(Reason))
        found: Counter[str] = Counter()
        for code, number in enumerate(numbers):
            found[Reason(code).code] += int(number)  # two reasons may share a word
        for name in told.puts.keys() | set(told.wanting):
            row = told.table.index[name]
            found[Reason(int(verdicts.reason[row])).code] -= 1
            found[told.code(row)] += 1
        return {code: number for code, number in sorted(found.items()) if number > 0}


def _differing(before: Told, now: Told) -> list[int]:
    """Rows whose columns are not as in the tick before, or that the desk answered in either."""
    old, new = before.verdicts, now.verdicts
    differs = (
        (old.reason != new.reason)
        | (old.streak != new.streak)
        | (before.samples != now.samples)
        | (old.desired != new.desired)
    )
    answered = {now.table.index[name] for name in (*before.puts, *now.puts, *before.wanting, *now.wanting)}
    return sorted({*map(int, np.flatnonzero(differs)), *answered})


def _said_otherwise(before: Told, now: Told, row: int) -> bool:
    """Whether the word is the same and another reason is behind it, so that what is told of it is another."""
    was = row if before.table is now.table else before.table.index.get(now.table.names[row])
    if was is None:
        return False
    old, new = int(before.verdicts.reason[was]), int(now.verdicts.reason[row])
    return old != new and Reason(old).code == Reason(new).code == now.code(row)


def _row(one: ServiceEvaluation, state: tuple[str, int, int, int], used: Mapping[str, Micros]) -> AutoscaleRow:
    code, streak, count, desired = state
    return AutoscaleRow(
        service=one.service,
        at=one.at,
        reason=code,
        words=one.reason[:1000],
        current=one.current,
        desired=desired,
        streak=streak,
        count=count,
        until=one.until,
        used=used,
        numbers={"raw": one.raw, "ready": one.ready, "signals": list(one.signals), "limits": dict(one.limits)},
    )


def _series(row: AutoscaleRow, signal: str) -> int:
    """How many series that signal was made of when the row was written, 0 if nobody counted them."""
    told = row.numbers.get("signals")
    for one in told if isinstance(told, list) else ():
        if isinstance(one, Mapping) and one.get("signal") == signal and type(found := one.get("series")) is int:
            return found
    return 0


def _signal(reading: Reading, target: float, at: Micros) -> Mapping[str, JsonValue]:
    if isinstance(reading, NoSample):
        return {
            "signal": reading.signal,
            "value": None,
            "target": target,
            "fault": reading.fault.value,
            "reason": reading.reason,
            "age_s": reading.age_s,
            "source": reading.source,
        }
    return {
        "signal": reading.signal,
        "value": reading.value,
        "target": target,
        "aggregation": reading.aggregation.value,
        "unit": reading.unit,
        "series": reading.series,
        "age_s": round(seconds(at - reading.observed_at), 3),
        "observed_at": rfc3339(reading.observed_at),
        "source": reading.source,
        "fault": None,
    }
