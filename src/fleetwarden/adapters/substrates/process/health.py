"""Is it well?  Probe results in a row become the status of an instance, instances the status of a service.

Pure and careful in one direction: nothing is called down that may only be starting, or that nobody looked at often
enough.  An instance that was well is down after so many failed probes in a row; a fresh one has its grace time; one
that is older than that and was never seen well by this plane is unknown until enough probes have failed.  A service is
down only if none of its instances lives or may yet become ready.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fleetwarden.domain.fleet import HealthCheck, InstanceStatus, ObservedInstance, Presence, ServiceStatus
from fleetwarden.domain.identifiers import Micros

__all__ = ["Memory", "Probed", "judge", "roll_up"]


class Probed(msgspec.Struct, frozen=True):
    """One probe's answer; `detail` says what came back, e.g. "HTTP 503".

    `ok` None: the question could not even be asked (no descriptor left, no such health command), which says nothing
    about the instance.
    """

    ok: bool | None
    detail: str


class Memory(msgspec.Struct, frozen=True):
    """What earlier probes of one instance said.  `at`: the store's time before the last one began; None before it."""

    was_well: bool = False
    failures: int = 0  # in a row
    detail: str = ""
    at: Micros | None = None

    def after(self, probed: Probed, at: Micros) -> Memory:
        """With one more answer.  An answer to an earlier question than the last one changes nothing."""
        if self.at is not None and at < self.at:
            return self
        if probed.ok is None:
            return msgspec.structs.replace(self, detail=probed.detail)
        if probed.ok:
            return Memory(was_well=True, failures=0, detail=probed.detail, at=at)
        return Memory(was_well=self.was_well, failures=self.failures + 1, detail=probed.detail, at=at)


def judge(check: HealthCheck, memory: Memory, age_s: float) -> tuple[InstanceStatus, str]:
    """Status of a live instance of that age, and the reason where it is not simply up."""
    needed = "" if memory.failures > check.failures else f" of {check.failures}"
    count = f"{memory.detail} ({memory.failures}{needed} failed probes in a row)"
    if memory.failures and memory.was_well:
        return (InstanceStatus.DOWN if memory.failures >= check.failures else InstanceStatus.UP), count
    if memory.was_well:
        return InstanceStatus.UP, ""
    if age_s < check.start_grace_s:
        left = check.start_grace_s - age_s
        return InstanceStatus.STARTING, f"starting, {memory.detail or 'not probed yet'}; {left:.0f} s of its grace left"
    if memory.at is None:
        return InstanceStatus.UNKNOWN, memory.detail or "no probe has answered yet"
    if memory.failures >= check.failures:
        return (
            InstanceStatus.DOWN,
            f"not seen well by this plane, and its {check.start_grace_s:g} s to start are over: {count}",
        )
    return InstanceStatus.UNKNOWN, count


def roll_up(
    instances: Sequence[ObservedInstance], *, total: int, wanted: int, presence: Presence
) -> tuple[ServiceStatus, str]:
    """Status of a service from the instance of each of its `total` slots.  `wanted`: replicas asked for."""
    if total == 0:
        return _empty(wanted, presence)
    states = [one.status for one in instances]
    ready = states.count(InstanceStatus.UP)
    told = "; ".join(f"#{one.id} {one.detail or one.status.value}" for one in _worst(instances))
    if ready == total:
        return ServiceStatus.UP, told
    if all(state is InstanceStatus.UNKNOWN for state in states):
        return ServiceStatus.UNKNOWN, told
    if ready or any(state in (InstanceStatus.STARTING, InstanceStatus.UNKNOWN) for state in states):
        return ServiceStatus.DEGRADED, told
    return ServiceStatus.DOWN, told


def _empty(wanted: int, presence: Presence) -> tuple[ServiceStatus, str]:
    match presence:
        case Presence.STARTED:
            return ServiceStatus.UP, "scaled to zero"
        case Presence.STOPPED_BY_US:
            detail = "stopped"
        case Presence.NOT_SINCE_BOOT:
            detail = "not started since the machine booted"
        case _:
            detail = "never started"
    return (ServiceStatus.UP if wanted == 0 else ServiceStatus.DOWN), detail


def _worst(instances: Sequence[ObservedInstance]) -> list[ObservedInstance]:
    """Those that have something to say, at most three, the dead ones first."""
    order = [InstanceStatus.DOWN, InstanceStatus.UNKNOWN, InstanceStatus.STARTING, InstanceStatus.UP]
    telling = [one for one in instances if one.detail or one.status is not InstanceStatus.UP]
    return sorted(telling, key=lambda one: order.index(one.status))[:3]
