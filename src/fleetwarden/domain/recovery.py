"""Judging an unknown outcome by evidence: did it happen, did it not, or can nobody say yet?

A record whose call was begun and never acknowledged is settled, never repeated.  Positive evidence must be newer than
the call and carry something that the call would have caused and that was not so before it: the outbox key on an
instance, a count, a start time.  Negative evidence counts only if it was taken after the call's horizon, when nothing
can land any more.  Where evidence cannot decide, a person does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.actions import Kind, OutboxRecord, Record
from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Presence
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.versions import ROLLOUTS

__all__ = ["Judgement", "after_horizon", "judge"]


class Judgement(Record):
    """`done` None: not decidable yet, or only by a person; `reason` says which and why."""

    done: bool | None
    reason: str
    code: str = ""
    evidence: Mapping[str, JsonValue] = {}
    by_person: bool = False  # undecided, and no later look is expected to decide it


def after_horizon(record: OutboxRecord, at: Micros) -> bool:
    """Whether nothing of the call can land at or after `at`, by the store's clock."""
    return record.horizon_at is not None and at > record.horizon_at


def judge(record: OutboxRecord, observed: ObservedService | None) -> Judgement:
    """What one observation says about one recovery_pending record."""
    if record.request.dry_run:
        return Judgement(done=False, code="simulation_lost", reason="a dry run was interrupted; it changes nothing")
    if observed is None:
        return Judgement(done=None, reason=f"{record.request.target} cannot be observed now")
    if record.started_at is None or observed.observed_at < record.started_at:
        return Judgement(done=None, reason="the observation is older than the call")
    done, partly, told = _seen(record, observed)
    evidence = {"observed_at": observed.observed_at, "seen_by": observed.source, "found": told}
    if done:
        return Judgement(done=True, reason=told, evidence=evidence)
    if done is None:
        return Judgement(done=None, reason=f"{told}: only a person can settle it", evidence=evidence, by_person=True)
    if record.negatives_by_person:
        why = "its adapter knows no lateness bound: only a person can settle it as failed"
        return Judgement(done=None, reason=why, by_person=True)
    if not after_horizon(record, observed.observed_at):
        return Judgement(done=None, reason="not seen yet, and its effect may still land")
    return Judgement(done=False, code="partial" if partly else "not_done", reason=told, evidence=evidence)


def _seen(record: OutboxRecord, observed: ObservedService) -> tuple[bool | None, bool, str]:
    """(done; None = evidence cannot tell, partly done, what was found)."""
    kind, params = record.request.kind, record.request.params
    before = record.request.evidence.facts
    if kind == Kind.STOP:
        return _stopped(record, observed)
    if kind in ROLLOUTS:
        return _rolled_out(record, observed)
    if kind == Kind.SCALE and int(params.get("replicas", -1)) <= int(before.get("total", 0)):
        wanted, had = int(params["replicas"]), int(before.get("total", 0))
        done = observed.total == wanted and had != wanted
        return done, observed.total != had, f"{observed.total} replicas, {had} before, {wanted} asked for"
    known = _identities_before(record)
    if known is None and not all(one.key for one in observed.instances):
        return None, False, "what runs carries no key, and what ran before is not known"
    made = [one for one in observed.instances if _made_by(one, record, known or frozenset())]
    if kind == Kind.RESTART and "replica" in params:
        done = any(one.id == str(params["replica"]) for one in made)
        return done, False, f"#{params['replica']} was {'' if done else 'not '}started by this action"
    if kind == Kind.SCALE:
        wanted, had = int(params["replicas"]), int(before.get("total", 0))
        done = observed.total >= wanted and len(made) >= wanted - had
        return done, bool(made), f"{len(made)} of {wanted - had} instances were started by this action"
    wanted = int(params.get("replicas", before.get("total", 0)) or 1)
    told = f"{len(made)} of {wanted} instances were started by this action"
    if kind == Kind.START and 0 < len(made) < wanted:
        return _added(record, observed, made, wanted, told)
    return len(made) >= wanted, bool(made), told


def _added(
    record: OutboxRecord, observed: ObservedService, made: Sequence[ObservedInstance], wanted: int, told: str
) -> tuple[bool | None, bool, str]:
    """A start adds to what lives already: with its own and with those that lived before, all slots must be filled."""
    if observed.total < wanted:
        return False, True, told
    lived = {
        one.get("identity")
        for one in record.request.evidence.facts.get("instances", ())
        if one.get("status") != InstanceStatus.DOWN
    }
    if all(one in made or one.identity in lived for one in observed.instances):
        return True, False, f"{told}, the others ran before"
    return None, True, f"{told}, and whether the others needed it cannot be told"


def _stopped(record: OutboxRecord, observed: ObservedService) -> tuple[bool, bool, str]:
    """A stop takes the slots away; what merely died has kept its slot."""
    before = record.request.evidence.facts
    existing, total = int(before.get("existing", 0)), int(before.get("total", 0))
    if observed.presence is Presence.STOPPED_BY_US and observed.stop_key:
        told = "stopped by this action" if observed.stop_key == record.key else "stopped by another action"
        return observed.stop_key == record.key, False, told
    if observed.presence is Presence.STOPPED_BY_OTHER:
        return False, False, "stopped by somebody else"
    done = observed.total == 0 and total > 0
    partly = observed.existing < existing or observed.total < total
    return done, partly, f"{observed.total} of {total} slots are left, {observed.existing} of {existing} instances live"


def _rolled_out(record: OutboxRecord, observed: ObservedService) -> tuple[bool | None, bool, str]:
    """A rollout is done where every replica runs the version; which it did not before, or which this action made."""
    wanted = str(record.request.params.get("version", ""))
    slots = [one for one in observed.instances if "/" not in one.id]
    if not slots or not all(one.version for one in slots):
        return None, False, "which version its replicas run cannot be seen"
    there = [one for one in slots if one.version == wanted and one.identity]  # a plan without a process is none
    made = [one for one in there if one.key == record.key]
    before = [str(one.get("version", "")) for one in record.request.evidence.facts.get("instances", ())]
    changed = bool(made) or any(version != wanted for version in before)
    told = f"{len(there)} of {len(slots)} replicas run version {wanted}, {len(made)} were started by this action"
    return len(there) == len(slots) and changed, bool(made), told


def _identities_before(record: OutboxRecord) -> frozenset[str] | None:
    """What ran right before the call, from its evidence; None if that is not known completely.

    Identities are compared and never times: an instance's start is by the substrate's clock, the call by the store's.
    """
    facts = record.request.evidence.facts
    listed = facts.get("instances")
    if not isinstance(listed, list) or len(listed) < int(facts.get("total", 0)):
        return None
    return frozenset(str(one.get("identity", "")) for one in listed if isinstance(one, Mapping))


def _made_by(one: ObservedInstance, record: OutboxRecord, before: frozenset[str]) -> bool:
    """A slot alone is a plan; an identity shows that something was started."""
    if one.key:
        return one.key == record.key and bool(one.identity)
    return bool(one.identity) and one.identity not in before
