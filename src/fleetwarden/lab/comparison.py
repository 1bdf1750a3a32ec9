"""One load played against several blocks, and what is told of it: the same facts for the screen, JSON and the page.

All blocks are measured by one yardstick, the replicas that the load needed by the targets of the first of them; each by
its own would call the most careless block the best provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND, JsonValue, rfc3339
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.domain.signals import Aggregation
from fleetwarden.lab.backtest import Backtest, Load, backtest, load_of
from fleetwarden.lab.recordings import Ticks

__all__ = ["BLOCKS_MAX", "Comparison", "compare", "cost_of", "wanted_signals"]

BLOCKS_MAX = 16


@dataclass(frozen=True, slots=True)
class Comparison:
    """`runs`: by name, the yardstick's first.  `notes`: what a reader has to know to believe the figures."""

    service: str
    source: str
    load: Load
    runs: Sequence[tuple[str, Backtest]]
    notes: Sequence[str]

    @property
    def seconds(self) -> float:
        times = self.load.ticks.times
        return float(times[-1] - times[0]) / SECOND

    @property
    def empty_ticks(self) -> int:
        """Ticks at which no signal had a sample."""
        return int((self.load.needed < 0).sum())

    def plain(self) -> dict[str, JsonValue]:
        """All of it, with units in the names and times in UTC."""
        ticks = self.load.ticks
        known = self.load.needed[self.load.needed >= 0]
        return {
            "service": self.service,
            "recording": {
                "source": self.source,
                "from": rfc3339(int(ticks.times[0])),
                "to": rfc3339(int(ticks.times[-1])),
                "seconds": self.seconds,
                "ticks": len(ticks.times),
                "tick_s": ticks.step_us / SECOND,
                "ticks_without_sample": self.empty_ticks,
                "unusable_values": ticks.unusable,
                "needed_replicas": {"lowest": int(known.min()), "highest": int(known.max())},
            },
            "notes": list(self.notes),
            "blocks": [_plain(name, run, self.load) for name, run in self.runs],
        }


def wanted_signals(blocks: Sequence[tuple[str, ScalingBlock]]) -> tuple[str, ...]:
    """Every signal that one of the blocks follows, in the order in which they come."""
    return tuple(dict.fromkeys(one.signal for _, block in blocks for one in block.signals))


def compare(
    service: str,
    source: str,
    ticks: Ticks,
    blocks: Sequence[tuple[str, ScalingBlock]],
    aggregation: Mapping[str, Aggregation],
    *,
    replicas: int | None = None,
    ready_after_s: float = 0.0,
    recorded_replicas: int | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Play the ticks against each block.  Raises Misconfigured for too many blocks and two of one name."""
    if len(blocks) > BLOCKS_MAX:
        raise Misconfigured(f"{len(blocks)} blocks, at most {BLOCKS_MAX} can be compared")
    names = [name for name, _ in blocks]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise Misconfigured(f"two blocks are called {doubled[0]!r}", hint="give the files different names")
    load = load_of(ticks, blocks[0][1], aggregation, recorded_replicas)
    runs = [(name, backtest(block, load, replicas=replicas, ready_after_s=ready_after_s)) for name, block in blocks]
    return Comparison(
        service=service, source=source, load=load, runs=runs, notes=[*notes, *_doubts(ticks, blocks, ready_after_s)]
    )


def _doubts(ticks: Ticks, blocks: Sequence[tuple[str, ScalingBlock]], ready_after_s: float) -> list[str]:
    notes = []
    if ticks.unusable:
        notes.append(f"{ticks.unusable:,} values are negative, infinite or absurd: each counts as no sample, as live")
    for name, block in blocks:
        if block.paused:
            notes.append(f"{name} says paused: true, so nothing moves; lay {{paused: false}} over it to see what would")
        if block.controller_mode != NATIVE:
            notes.append(f"{name} leaves the count to {block.controller_mode}: played as if fleetwarden wrote it")
        if block.schedules and int(ticks.times[0]) < 86_400 * 365 * SECOND:
            notes.append(f"{name} has schedules, and the recording's times lie in 1970: they hold at those hours")
    ready = "at once" if not ready_after_s else f"{ready_after_s:g} s later"
    notes.append(
        f"a change is carried out in the tick that wants it, new replicas are ready {ready};"
        " policy, approvals, freezes and quotas are not played"
    )
    return notes


def _plain(name: str, run: Backtest, load: Load) -> dict[str, JsonValue]:
    times = load.ticks.times
    changed = np.flatnonzero(np.diff(run.replicas)) + 1
    timeline = [(int(times[0]), int(run.replicas[0])), *((int(times[n]), int(run.replicas[n])) for n in changed)]
    price = cost_of(run)
    return {
        "name": name,
        "scaling": run.block.raw,
        "replica_hours": round(run.replica_hours, 4),
        "under_provisioned_s": run.short_s,
        "under_provisioned_replica_hours": round(run.short_replica_hours, 4),
        "under_provisioned_at_max_s": run.at_max_s,
        "idle_replica_hours": round(run.idle_replica_hours, 4),
        "without_sample_s": run.unknown_s,
        "cost": None if price is None else str(price),
        "replicas": {"first": run.first, "lowest": run.lowest, "highest": run.highest, "last": int(run.replicas[-1])},
        "changes_up": run.ups,
        "changes_down": run.downs,
        "reversals": run.reversals,
        "ticks_by_reason": dict(run.reasons),
        "actions": [
            {"at": rfc3339(one.at), "from": one.before, "to": one.after, "reason": one.reason} for one in run.actions
        ],
        "timeline": [{"at": rfc3339(at), "replicas": count} for at, count in timeline],
    }


def cost_of(run: Backtest) -> Decimal | None:
    """What the replica-hours cost at the block's price, in its currency; None where it names no price."""
    if run.block.cost is None:
        return None
    return (Decimal(repr(round(run.replica_hours, 6))) * run.block.cost.per_replica_hour).quantize(Decimal("0.01"))
