"""What one tick of the autoscaler sees, as columns: observations, standing reasons, and samples that are believed.

The one place where records become columns.  A service that nobody saw is unobserved, a sample that is not believed is
missing, and each has its reason kept beside the columns for people to read; nothing here decides about a count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleetwarden.domain.fleet import DesiredState, ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.sample_use import Use, use_of
from fleetwarden.domain.signal_rules import check
from fleetwarden.domain.signals import CONFIDENT, Aggregation, Definition, NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.domain.tracking_columns import BlockTable, Reason, Seen, Words
from fleetwarden.domain.tracking_memory import Ints, Memory
from fleetwarden.domain.unit_check import UTILISATION, declared_problem, looks_like_a_fraction, looks_like_percent

__all__ = ["Declared", "Sight", "see"]

Declared = Callable[[str, str], Definition | None]  # what a signal of a service is declared as
_STATUS = {
    ServiceStatus.UP: Words.UP,
    ServiceStatus.DEGRADED: Words.DEGRADED,
    ServiceStatus.DOWN: Words.DOWN,
    ServiceStatus.UNKNOWN: Words.UNKNOWN,
}
_OPEN = 255


class Sight:
    """The columns, and what is told of them: by pair the reading that was judged and when the newest one that was ever
    used was measured, by row why it is not evaluated.  `thin`: by pair, why a sample that is believed shrinks
    nothing."""

    __slots__ = ("columns", "readings", "standing", "thin", "used")

    def __init__(
        self,
        columns: Seen,
        readings: Sequence[Reading],
        standing: Mapping[int, str],
        used: Ints,
        thin: Mapping[int, str],
    ) -> None:
        self.columns = columns
        self.thin = thin
        self.readings = readings
        self.standing = standing
        self.used = used

    def of(self, table: BlockTable, row: int) -> list[Reading]:
        """The readings of one row's signals."""
        return list(self.readings[table.pairs_of(row)])

    def used_of(self, table: BlockTable, row: int) -> dict[str, Micros]:
        """By signal of the row, when the newest sample that was ever used of it was measured."""
        pairs = table.pairs_of(row)
        names = table.pair_signal[pairs]
        return {name: int(at) for name, at in zip(names, self.used[pairs], strict=True) if at}


def see(
    table: BlockTable,
    pairs: Sequence[Pair],
    services: Mapping[str, Service],
    observed: Mapping[str, ObservedService],
    answers: Mapping[Pair, Reading],
    declared: Declared,
    rollouts: Mapping[str, str],
    memory: Memory,
    now: Micros,
) -> Sight:
    """Fill the columns.  `rollouts`: by service, the rollout that is under way; samples used are noted in `memory`."""
    columns = Seen.blank(table)
    standing: dict[int, str] = {}
    for row, name in enumerate(table.names):
        service = services.get(name)
        held = (Reason.SKIP_INVALID, "it is not declared any more") if service is None else _standing(service, rollouts)
        if held is not None:
            columns.reason[row], standing[row] = held
        _observe(columns, row, observed.get(name), now, warmup=bool(table.warmup_us[row]))
        _fewer(table, memory, row, observed.get(name), now)
    readings: list[Reading] = []
    thin: dict[int, str] = {}
    for number, pair in enumerate(pairs):
        last = int(memory.last_used[number])
        definition = declared(pair.service, pair.signal)
        reading = check(pair, answers.get(pair), definition, now, last)
        if isinstance(reading, Sample) and reading.observed_at == last and not memory.spent[number]:
            reading = _repeated(reading, float(memory.last_value[number]))
        doubt = ""
        if isinstance(reading, Sample) and reading.unit in UTILISATION:
            reading, doubt = _unit(table, memory, number, reading, int(columns.current[table.pair_row[number]]))
        readings.append(reading)
        if isinstance(reading, Sample):
            average = reading.aggregation is Aggregation.PER_REPLICA
            use = use_of(
                reading.observed_at,
                last,
                averaged=average,
                spent=bool(memory.spent[number]),
                changed_at=int(memory.changed_at[table.pair_row[number]]),
            )
            columns.again[number] = use is not Use.NEWS
            if use is Use.GONE:
                columns.fault[number] = 2
                continue
            columns.value[number] = reading.value
            columns.fault[number] = 0
            columns.per_replica[number] = average
            memory.last_used[number], memory.spent[number] = reading.observed_at, False
            memory.last_value[number] = reading.value
            counted = definition is None or not definition.series_vary
            lost = memory.series.note(number, reading.series, reading.observed_at) if counted else ""
            if lost := _incomplete(reading, observed.get(pair.service)) or lost or doubt:
                columns.no_down[number], thin[number] = True, f"{pair.signal}: {lost}"
        elif reading.fault is SampleFault.NOT_ASKED:
            columns.fault[number] = 2
    return Sight(columns, readings, standing, memory.last_used.copy(), thin)


def _unit(table: BlockTable, memory: Memory, number: int, sample: Sample, current: int) -> tuple[Reading, str]:
    """The sample, or none if its unit cannot be right; and why it may not be."""
    target = float(table.pair_target[number])
    each = sample.value if sample.aggregation is Aggregation.PER_REPLICA else sample.value / max(current, 1)
    wrong = declared_problem(sample.unit, target) or looks_like_percent(sample.unit, each)
    if wrong:
        none = NoSample(
            service=sample.service,
            signal=sample.signal,
            fault=SampleFault.MISMATCH,
            reason=wrong,
            source=sample.source,
        )
        return none, ""
    memory.above_one[number] |= each > 1
    return sample, "" if memory.above_one[number] else looks_like_a_fraction(sample.unit, target, each)


def _repeated(sample: Sample, used: float) -> Reading:
    """A sample with the time of the one that was used last: that very one, or none at all."""
    if sample.value == used:
        return sample
    return NoSample(
        service=sample.service,
        signal=sample.signal,
        fault=SampleFault.REPLAYED,
        reason="it has the time of the last one that was used, and another value",
        source=sample.source,
    )


def _standing(service: Service, rollouts: Mapping[str, str]) -> tuple[Reason, str] | None:
    """Why it is not evaluated at all, before anything is measured."""
    block = service.scaling
    if block is None or service.scaling_error is not None:
        why = "" if service.scaling_error is None else f"{service.scaling_error.field}: {service.scaling_error.reason}"
        return Reason.SKIP_INVALID, f"its scaling block is invalid ({why}): the count is held"
    if service.desired is DesiredState.STOPPED:
        return Reason.SKIP_STOPPED, "it is to be stopped"
    if service.count_wish is not None:
        return Reason.SKIP_OVERRIDE, f"its count is held by {service.count_wish.words}"
    if block.paused:
        return Reason.SKIP_PAUSED, "scaling.paused says so"
    if service.paused:
        return Reason.PREVENTED, service.paused
    if (rollout := rollouts.get(service.name)) is not None:
        return Reason.SKIP_ROLLOUT, rollout
    return None


def _observe(columns: Seen, row: int, seen: ObservedService | None, now: Micros, *, warmup: bool) -> None:
    if seen is None:
        return
    columns.current[row] = seen.total
    columns.ready[row] = seen.ready
    columns.existing[row] = seen.existing
    empty = seen.total == 0 and seen.presence is Presence.STARTED
    columns.status[row] = Words.UP if empty else _STATUS[seen.status]  # 0 of 0 is scaled to zero, not down
    if warmup:
        born = [one.started_at for one in seen.instances if one.started_at is not None]
        if born:
            columns.youngest_us[row] = max(0, now - max(born))
        elif seen.ready < seen.total:
            columns.youngest_us[row] = 0


def _fewer(table: BlockTable, memory: Memory, row: int, seen: ObservedService | None, now: Micros) -> None:
    """Remember how many replicas there are; fewer than before explain fewer series."""
    if seen is None:
        return
    if seen.total < (before := int(memory.total[row])):
        memory.series.fewer_replicas(table.pairs_of(row), before, seen.total, now)
    memory.total[row] = seen.total


def _incomplete(sample: Sample, seen: ObservedService | None) -> str:
    """Why a sample by itself is no reason to have fewer replicas, "" if nothing speaks against it."""
    if sample.confidence < CONFIDENT:
        return f"its source is {sample.confidence:.0%} sure of it, {CONFIDENT:.0%} are needed for fewer"
    return "it leaves replicas out, or is of another version than runs" if _too_thin(sample, seen) else ""


def _too_thin(sample: Sample, seen: ObservedService | None) -> bool:
    """Whether the sample leaves out some of the replicas, or is of another version: no reason to have fewer."""
    if seen is None:
        return True
    if sample.version and seen.version and sample.version != seen.version:
        return True
    return sample.aggregation is Aggregation.PER_REPLICA and 0 < sample.series < seen.ready
