"""A watch: who looks at a service after something was done to it, until when, and what was seen so far.

And a quarantine: what is left of a version whose watch failed.  Facts only; `deploy_watch_verdict` says what they mean.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros, show_id

__all__ = [
    "PROBES_MAX",
    "DeployWatch",
    "OnFail",
    "Probe",
    "Quarantine",
    "Sight",
    "WatchStatus",
    "with_probe",
]

PROBES_MAX = 40  # changes that are kept: the first few and the newest
FIRST_KEPT = 8


class WatchStatus(StrEnum):
    """`running`, or how it ended.  `replaced`: a later watch of the service took its place."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    UNOBSERVED = "unobserved"
    REPLACED = "replaced"


class OnFail(StrEnum):
    """What a failure leads to, besides that people are told."""

    ROLLBACK = "rollback"  # rollback_service is proposed
    SCALE_BACK = "scale_back"  # the count from before is proposed
    ESCALATE = "escalate"  # nothing


class Sight(StrEnum):
    """What one look says."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"  # neither well nor down
    EARLY = "early"  # down within the grace period
    DOWN = "down"
    AWAY = "away"  # it is not there to be judged: stopped, or another version runs
    BLIND = "blind"  # no usable observation

    @property
    def usable(self) -> bool:
        return self not in (Sight.AWAY, Sight.BLIND)


class Probe(Record):
    """One look, or the first of several that said the same."""

    at: Micros
    sight: Sight
    ready: int = 0
    total: int = 0
    version: str = ""
    detail: str = ""


class DeployWatch(Record):
    """One watch, as it stands in the store.

    `version`: what is watched, "" where it is not known; `changes_version`: the watch of a deploy, a rollback or of
    `watch_deploy` with a version, or one that took over from such a watch.  `replica`: the slot that was repaired, ""
    for the service as a whole.  Evidence from before `settled` says nothing, a look before `grace_until` is never
    down.  `poll` 0: the first step has yet to take the service's own terms over.  `judged`: signals of its checks that
    gave a usable value.  `proven`: its success proves `version`.  `follow_up`: what became of a failure ("pending": to
    be done).
    """

    seq: int
    service: str
    action_seq: int | None
    kind: str
    source: str
    version: str = ""
    from_version: str = ""
    from_replicas: int | None = None
    definition: str = ""
    replica: str = ""
    changes_version: bool = False
    on_fail: OnFail = OnFail.ESCALATE
    status: WatchStatus = WatchStatus.RUNNING
    started: Micros
    settled: Micros
    grace_until: Micros
    deadline: Micros
    poll: Micros = 0
    made: int = 0
    usable: int = 0
    healthy: int = 0
    last_at: Micros | None = None
    probes: tuple[Probe, ...] = ()
    judged: tuple[str, ...] = ()
    proven: bool = False
    reason: str = ""
    ended_at: Micros | None = None
    replaced_by: int | None = None
    follow_up: str = ""

    @property
    def id(self) -> str:
        return show_id("V", self.seq)

    @property
    def last(self) -> Sight | None:
        """What the newest look said."""
        return self.probes[-1].sight if self.probes else None


class Quarantine(Record):
    """A version of a service that failed its watch.  It stands until a person clears it, with a reason."""

    seq: int
    service: str
    version: str
    watch_seq: int
    reason: str
    at: Micros
    cleared_at: Micros | None = None
    cleared_by: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        return show_id("Q", self.seq)

    @property
    def words(self) -> str:
        """Why the version is not deployed, and what ends that."""
        return (
            f"version {self.version} of {self.service} is in quarantine ({self.id}: it failed watch "
            f"{show_id('V', self.watch_seq)}): it is deployed again once a person clears it with "
            f"`fleetwarden quarantine clear {self.service} --reason TEXT`, or another version is declared"
        )


def with_probe(probes: tuple[Probe, ...], one: Probe) -> tuple[Probe, ...]:
    """The kept looks with a new one.  Of too many, those in the middle go."""
    new = (*probes, one)
    return new if len(new) <= PROBES_MAX else (*new[:FIRST_KEPT], *new[len(new) - PROBES_MAX + FIRST_KEPT :])
