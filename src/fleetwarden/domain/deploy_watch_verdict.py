"""What a watch makes of what it sees: one look at a time, and the verdict.

Pure.  A watch fails as soon as anything it watches is down after the grace period; it succeeds at its deadline, and
not before, if it was seen healthy and never down; where nothing usable was seen it ends as unobserved, which is
neither.  Old evidence, a service that is not there to be judged and a signal that nobody measured count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import Record
from fleetwarden.domain.deploy_watch import DeployWatch, Probe, Sight, WatchStatus
from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Presence, ServiceStatus
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.signals import Reading, Sample
from fleetwarden.domain.versions import running
from fleetwarden.domain.watch_block import SignalCheck

__all__ = ["Verdict", "checked", "look", "proves", "verdict"]

DETAIL_MAX = 300


class Verdict(Record):
    """How a watch ends, and why, in a sentence."""

    status: WatchStatus
    reason: str


def look(watch: DeployWatch, observed: ObservedService | None, at: Micros) -> Probe:
    """What one look says to this watch.  `at`: when it was made."""
    if observed is None:
        return Probe(at=at, sight=Sight.BLIND, detail="no observation")
    if observed.observed_at <= watch.settled:
        return Probe(at=at, sight=Sight.BLIND, detail="seen before the action was done")
    sight, detail = _sight(watch, observed)
    if sight is Sight.DOWN and observed.observed_at < watch.grace_until:
        sight = Sight.EARLY
    return Probe(
        at=at,
        sight=sight,
        ready=observed.ready,
        total=observed.total,
        version=", ".join(running(observed))[:DETAIL_MAX],
        detail=detail[:DETAIL_MAX],
    )


def _sight(watch: DeployWatch, observed: ObservedService) -> tuple[Sight, str]:
    if observed.status is ServiceStatus.UNKNOWN:
        return Sight.BLIND, observed.detail or "its state is unknown"
    if observed.presence is not Presence.STARTED:
        return Sight.AWAY, f"not running ({observed.presence.value})"
    if watch.replica:
        one = next((each for each in observed.instances if each.id == watch.replica), None)
        return _of_replica(watch, one)
    told = running(observed)
    if watch.changes_version and watch.version and told and watch.version not in told:
        return Sight.AWAY, f"version {', '.join(told)} runs"
    ours = _of_version(watch, observed)
    if ours and all(one.status is InstanceStatus.DOWN for one in ours):
        return Sight.DOWN, _because(ours) or observed.detail or "all of its replicas are down"
    if observed.status is ServiceStatus.DOWN and observed.total > 0:
        if any(one.status is InstanceStatus.STARTING for one in observed.instances):
            return Sight.DEGRADED, "still starting"
        return Sight.DOWN, _because(observed.instances) or observed.detail or "down"
    mixed = watch.changes_version and watch.version and len(told) > 1
    if observed.status is ServiceStatus.UP and not mixed:
        return Sight.HEALTHY, ""
    return Sight.DEGRADED, observed.detail or f"{observed.ready} of {observed.total} ready"


def _of_replica(watch: DeployWatch, one: ObservedInstance | None) -> tuple[Sight, str]:
    if one is None:
        return Sight.AWAY, f"replica {watch.replica} is gone"
    sights = {
        InstanceStatus.UP: Sight.HEALTHY,
        InstanceStatus.DOWN: Sight.DOWN,
        InstanceStatus.STARTING: Sight.DEGRADED,
        InstanceStatus.UNKNOWN: Sight.BLIND,
    }
    return sights[one.status], one.detail


def _of_version(watch: DeployWatch, observed: ObservedService) -> Sequence[ObservedInstance]:
    """The replicas that run what is watched, where a version is."""
    if not watch.changes_version or not watch.version:
        return ()
    return [one for one in observed.instances if one.version == watch.version]


def _because(instances: Sequence[ObservedInstance]) -> str:
    return "; ".join(
        f"#{one.id} {one.detail}" for one in instances if one.status is InstanceStatus.DOWN and one.detail
    )[:DETAIL_MAX]


def checked(
    watch: DeployWatch, probe: Probe, checks: Sequence[SignalCheck], readings: Mapping[str, Reading]
) -> tuple[Probe, tuple[str, ...]]:
    """The look with the signals held against their bounds, and the signals that gave a value so far.

    A broken bound counts as down.  A signal without a sample since the action is not judged.
    """
    judged, told = list(watch.judged), ""
    for check in checks:
        reading = readings.get(check.signal)
        if not isinstance(reading, Sample) or reading.observed_at <= watch.settled:
            continue
        if check.signal not in judged:
            judged.append(check.signal)
        told = told or check.problem(reading.value)
    if not told or not probe.sight.usable or probe.sight in (Sight.DOWN, Sight.EARLY):
        return probe, tuple(judged)
    sight = Sight.EARLY if probe.at < watch.grace_until else Sight.DOWN
    return Probe(
        at=probe.at, sight=sight, ready=probe.ready, total=probe.total, version=probe.version, detail=told
    ), tuple(judged)


def verdict(watch: DeployWatch, now: Micros, checks: Sequence[SignalCheck] = ()) -> Verdict | None:
    """How this watch ends at `now`, its newest look included; None while it goes on."""
    if watch.last is Sight.DOWN:
        return Verdict(status=WatchStatus.FAILED, reason=f"down: {watch.probes[-1].detail}")
    if now < watch.deadline:
        return None
    if watch.usable == 0:
        why = f" ({watch.probes[-1].detail})" if watch.probes and watch.probes[-1].detail else ""
        return Verdict(status=WatchStatus.UNOBSERVED, reason=f"nothing usable was seen of it{why}")
    if watch.last is Sight.AWAY:
        reason = f"it was not there to be judged at the end ({watch.probes[-1].detail})"
        return Verdict(status=WatchStatus.UNOBSERVED, reason=reason)
    if watch.healthy == 0:
        return Verdict(status=WatchStatus.FAILED, reason=f"never seen healthy in {watch.usable} looks")
    if silent := [one.signal for one in checks if one.signal not in watch.judged]:
        reason = f"no value of {', '.join(silent)} since the action: its bound could not be judged"
        return Verdict(status=WatchStatus.UNOBSERVED, reason=reason)
    return Verdict(status=WatchStatus.SUCCESS, reason=f"healthy in {watch.healthy} of {watch.made} looks, never down")


def proves(watch: DeployWatch) -> bool:
    """Whether a success proves the watched version: one version ran, that one, and the service as a whole was seen."""
    if not watch.version or not watch.probes or watch.replica:
        return False
    return watch.probes[-1].version in ("", watch.version)
