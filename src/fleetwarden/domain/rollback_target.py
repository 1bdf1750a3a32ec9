"""Where a change of version goes back to: the last version that was verified healthy here, or nowhere.

Asked after a watch that failed, and by a person who names no version.  Pure.  Never a version whose newest verdict is
bad, one in quarantine, one whose roll-out was aborted, one that is marked irreversible or is made from something else
by now, and nothing at all where what failed cannot be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fleetwarden.domain import versions
from fleetwarden.domain.actions import Kind, Record
from fleetwarden.domain.deploy_watch import DeployWatch, WatchStatus
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import show_id

__all__ = ["Target", "rollback_target", "verified_before", "way_back"]


class Target(Record):
    """`version` "": there is nothing to go back to, and `reason` says why; else on which watch it rests."""

    version: str
    reason: str


def rollback_target(
    watch: DeployWatch,
    service: Service,
    *,
    running: Collection[str],
    verdicts: Sequence[DeployWatch],
    quarantined: Collection[str],
    complete: Mapping[str, bool],
) -> Target:
    """The version to go back to after this watch failed.

    `verdicts`: the service's watches that say something of a version, newest first.  `complete`: of each version in
    the history, whether its newest roll-out ended whole.
    """
    if watch.kind == Kind.ROLLBACK:
        return Target(version="", reason="what failed is a rollback itself, and a rollback is not rolled back")
    return verified_before(
        service,
        leaving={watch.version},
        running=running,
        verdicts=verdicts,
        quarantined=quarantined,
        complete=complete,
    )


def verified_before(
    service: Service,
    *,
    leaving: Collection[str],
    running: Collection[str],
    verdicts: Sequence[DeployWatch],
    quarantined: Collection[str],
    complete: Mapping[str, bool],
) -> Target:
    """The newest version besides those it leaves that was verified healthy here, with the arguments of the above."""
    for version in leaving:
        if _irreversible(service, version):
            return Target(version="", reason=f"version {version}, which it would leave, is marked irreversible")
    judged: set[str] = set(leaving)
    passed: list[str] = []
    for one in verdicts:
        if one.version in judged:
            continue
        judged.add(one.version)
        why = _unfit(one, service, running, quarantined, complete)
        if not why:
            return Target(version=one.version, reason=f"version {one.version} passed watch {show_id('V', one.seq)}")
        passed.append(why)
    told = f" ({'; '.join(passed[:5])})" if passed else ""
    return Target(version="", reason=f"no other version of {service.name} was verified healthy here{told}")


def way_back(
    service: Service,
    *,
    last: str,
    rolled_back: bool,
    running: Collection[str],
    verdicts: Sequence[DeployWatch],
    quarantined: Collection[str],
    complete: Mapping[str, bool],
) -> Target:
    """The version that a person goes back to who names none.

    `last`: the version of the newest roll-out, "" without any, and whether it was `rolled_back` to.  It is what is left
    unless something else runs by now: a roll-out that stopped half-way leaves two versions, one of them the way back.
    """
    if rolled_back:
        return Target(version="", reason=f"{service.name} was rolled back, and a rollback is not rolled back")
    return verified_before(
        service,
        leaving={last} if last and (last in running or not running) else running,
        running=running,
        verdicts=verdicts,
        quarantined=quarantined,
        complete=complete,
    )


def _unfit(
    one: DeployWatch,
    service: Service,
    running: Collection[str],
    quarantined: Collection[str],
    complete: Mapping[str, bool],
) -> str:
    """Why this version is none to go back to, or ""."""
    version = one.version
    if one.status is WatchStatus.FAILED:
        return f"{version} failed watch {one.id}"
    if version in quarantined:
        return f"{version} is in quarantine"
    if set(running) == {version}:
        return f"{version} runs already"
    if not complete.get(version, True):
        return f"the last roll-out of {version} was aborted"
    if not versions.runnable(service, version):
        return f"{version} is not in the registry any more"
    if _irreversible(service, version):
        return f"{version} is marked irreversible"
    now = versions.definition(service, version)
    if one.definition and now and one.definition != now:
        return f"{version} is made from something else than when it passed"
    return ""


def _irreversible(service: Service, version: str) -> bool:
    spec = None if service.process is None else service.process.versions.get(version)
    return spec is not None and spec.irreversible
