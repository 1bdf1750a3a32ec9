"""Desired against observed: what one service needs now, or why it needs nothing.

Level-triggered and pure: the same two states always give the same answer, whoever asks and however often.  One need at
a time per service; the next pass sees the next one.  Rules that hold here and nowhere else: missing evidence proposes
nothing; a service that was never started is started, not restarted; one bad instance of several is repaired alone; a
count that something else owns (a scaling block) is never put back; what is still starting is left in peace.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain import versions
from fleetwarden.domain.actions import ActionRequest, Kind, Record, Source
from fleetwarden.domain.count_owner import not_ours
from fleetwarden.domain.fleet import (
    DesiredState,
    InstanceStatus,
    Mode,
    ObservedInstance,
    ObservedService,
    Presence,
    Service,
    ServiceStatus,
    Wish,
)
from fleetwarden.domain.identifiers import JsonValue, digest
from fleetwarden.domain.intent_requests import stands_for_intent

__all__ = ["Need", "Rest", "beside", "converge", "facts", "identity", "still_needed", "undecidable"]


DETAIL_MAX = 300  # characters of an observer's own words: evidence is bounded, whatever was seen


class Need(Record):
    """What a service needs: an action and its parameters, with the reason in words."""

    kind: Kind
    params: Mapping[str, JsonValue]
    reason: str
    direction: str = ""
    by: str = ""  # the person whose wish it is, if it is one's own: who asked cannot approve it


class Rest(Record):
    """Why nothing is needed, or nothing may be proposed: a stable code and a sentence."""

    code: str
    reason: str


def identity(service: Service) -> Mapping[str, JsonValue]:
    """What an approval binds besides kind, target and params: where it runs, and the digest of how it is run.

    A changed command is another action: a grant for the old one does not carry over.
    """
    if service.process is None:
        return {}
    spec = service.process
    return {"host": spec.host, "spec": digest([spec, service.version])}


def converge(service: Service, observed: ObservedService | None) -> Need | Rest:
    """The one thing that this service needs now."""
    if service.mode is Mode.OBSERVE:
        return Rest(code="observe_only", reason="mode is observe: it is looked at and left alone")
    if service.paused:
        return Rest(code="foreign_paused", reason=service.paused)
    if observed is None:
        return Rest(code="unobserved", reason="no observation: nothing is done without evidence")
    if observed.status is ServiceStatus.UNKNOWN:
        return Rest(
            code="unknown", reason=f"its state is unknown{_because(observed)}: nothing is done without evidence"
        )
    if service.desired is DesiredState.STOPPED:
        return _towards_stopped(service, observed)
    if observed.presence is not Presence.STARTED:
        return _towards_started(service, observed)
    bad = [one for one in observed.instances if one.status is InstanceStatus.DOWN]
    if observed.status is ServiceStatus.DOWN:
        return _repair(service, observed, bad)
    if observed.total != service.replicas:
        return _count(service, observed, bad)
    if bad:
        return _repair(service, observed, bad)
    return _at_rest(service, observed)


def _towards_stopped(service: Service, observed: ObservedService) -> Need | Rest:
    wish = service.state_wish
    if observed.existing > 0:
        if (why := not_ours(service, Kind.STOP)) is not None:
            return Rest(code="count_not_ours", reason=why)
        how = "declared stopped" if wish is None else f"stopped by {wish.words}"
        return Need(
            kind=Kind.STOP,
            params={},
            direction="down",
            reason=f"{how}, {observed.existing} still running",
            by="" if wish is None else wish.person,
        )
    return _settled(service, "stopped", "stopped", wish)


def _towards_started(service: Service, observed: ObservedService) -> Need | Rest:
    if service.replicas == 0:
        return _settled(service, "scaled_to_zero", "0 replicas, none started", service.count_wish)
    if (owned := not_ours(service, Kind.START)) is not None:
        return Rest(code="count_not_ours", reason=owned)
    if held := versions.kept_from_start(service, versions.ran_last(observed), service.aside):
        return Rest(code="version_quarantined", reason=held)
    why = {
        Presence.NEVER_STARTED: "never started",
        Presence.NOT_SINCE_BOOT: "not started since the machine booted",
        Presence.STOPPED_BY_US: "stopped earlier, and declared running",
        Presence.STOPPED_BY_OTHER: "stopped by somebody else, and declared running",
    }[observed.presence]
    wish = service.state_wish or service.count_wish
    if wish is not None:
        why = f"{why}; {wish.words}"
    return Need(
        kind=Kind.START,
        params={"replicas": service.replicas},
        direction="up",
        reason=why,
        by="" if wish is None else wish.person,
    )


def _repair(service: Service, observed: ObservedService, bad: list[ObservedInstance]) -> Need | Rest:
    if service.replicas == 0 and observed.total == 0:
        return Rest(code="scaled_to_zero", reason="0 replicas declared, none running")
    if len(bad) == 1 or (bad and len(bad) < len(observed.instances)):
        one = bad[0]
        return Need(
            kind=Kind.RESTART,
            params={"replica": int(one.id)} if one.id.isdigit() else {},
            reason=f"{service.name}#{one.id} is down{f' ({one.detail[:DETAIL_MAX]})' if one.detail else ''}",
        )
    return Need(kind=Kind.RESTART, params={}, reason=f"{service.name} is down{_because(observed)}")


def _count(service: Service, observed: ObservedService, bad: list[ObservedInstance]) -> Need | Rest:
    wish = service.count_wish
    if service.scaling is not None and wish is None:
        if bad:
            return _repair(service, observed, bad)
        owner = service.scaling.controller_mode
        if owner != "native":
            return Rest(code="count_not_ours", reason=f"its count is written by {owner}, not here")
        return Rest(code="follows_load", reason="its count follows load: it changes by an accepted intent only")
    return Need(
        kind=Kind.SCALE,
        params={"replicas": service.replicas},
        direction="up" if service.replicas > observed.total else "down",
        reason=f"{service.replicas} {'declared' if wish is None else f'asked for by {wish.words}'},"
        f" {observed.total} there (dead ones included)",
        by="" if wish is None else wish.person,
    )


def _at_rest(service: Service, observed: ObservedService) -> Need | Rest:
    if any(one.status is InstanceStatus.STARTING for one in observed.instances):
        return Rest(code="starting", reason="still starting")
    if observed.status is ServiceStatus.DEGRADED:
        return Rest(code="degraded", reason=f"{observed.ready} of {observed.total} ready{_because(observed)}")
    if service.quarantined and service.version:  # also where it runs: people have to see that
        return Rest(code="version_quarantined", reason=service.quarantined)
    if (differs := versions.differing(service, observed)) is not None:
        if service.rolled_back:
            return Rest(code="version_rolled_back", reason=service.rolled_back)
        return _rollout(service, differs)
    if observed.total == 0:
        return _settled(service, "scaled_to_zero", "0 replicas", service.count_wish)
    if (older := versions.older_definition(service, observed)) is not None:
        return Rest(code="older_definition", reason=older)
    return _settled(service, "as_declared", "", service.count_wish or service.state_wish)


def _settled(service: Service, code: str, what: str, wish: Wish | None) -> Rest:
    """At rest, as asked for: by the files, by a person, or because what somebody else set is held."""
    if service.held:
        return Rest(code="foreign_held", reason=service.held)
    told = "as declared" if wish is None else f"as {wish.words} asks"
    return Rest(code=code if wish is None else "as_asked", reason=f"{what}, {told}" if what else told)


def _rollout(service: Service, differs: str) -> Need:
    params: dict[str, JsonValue] = {"version": service.version}
    spec = service.process
    if spec is not None and service.version in spec.versions and spec.versions[service.version].irreversible:
        params["irreversible"] = True
    return Need(kind=Kind.DEPLOY, params=params, reason=differs)


def beside(need: Need, service: Service, observed: ObservedService) -> Need | None:
    """What is needed just as well, where the first need may not be met.

    What is down is restarted first, in the version that it had.  Where policy no longer allows that, the version may be
    what ails it, and the declared one is deployed.
    """
    differs = versions.differing(service, observed) if need.kind is Kind.RESTART else None
    return None if differs is None or service.rolled_back or service.quarantined else _rollout(service, differs)


def _because(observed: ObservedService) -> str:
    return f" ({observed.detail[:DETAIL_MAX]})" if observed.detail else ""


def undecidable(request: ActionRequest, observed: ObservedService | None) -> str | None:
    """Why nobody can tell now whether a request still must be carried out, or None.

    A reason to wait for a better look, never one to end it.
    """
    if observed is None:
        return f"{request.target} cannot be observed now"
    if observed.status is ServiceStatus.UNKNOWN and request.source not in (Source.OPERATOR, Source.API):
        return f"the state of {request.target} is unknown{_because(observed)}"
    if request.kind == Kind.ROLLBACK and request.source == Source.DEPLOY_WATCH and versions.unclear(observed):
        return f"a replica of {request.target} does not tell its version yet"
    return None


def still_needed(request: ActionRequest, service: Service, observed: ObservedService | None) -> str | None:
    """Why a request that was right once must not be carried out now, or None if it still must.

    Asked of every request right before its side effect, and of a grant before it becomes work.  A person's own request
    is a wish, not a repair: only a controller's is measured against the fleet.
    """
    if request.identity != identity(service):
        return f"{service.name} is declared differently by now"
    if service.mode is Mode.OBSERVE:
        return f"the mode of {service.name} is observe by now: it is looked at and left alone"
    if service.mode is Mode.DRY_RUN and not request.dry_run:
        return f"the mode of {service.name} is dry_run by now"
    if observed is None:
        return f"{service.name} cannot be observed now"
    if request.source in (Source.OPERATOR, Source.API):
        return None
    if service.paused:
        return f"{service.name} is {service.paused}"
    if stands_for_intent(request):
        return _scale_still_needed(request, service, observed)
    if (
        request.kind == Kind.RESTART
        and service.desired is DesiredState.RUNNING
        and observed.presence is Presence.STARTED
    ):
        return _restart_still_needed(request, service, observed)
    if request.kind in versions.ROLLOUTS:
        return _rollout_still_needed(request, service, observed)
    now = converge(service, observed)
    if isinstance(now, Rest):
        return f"{service.name} needs nothing now: {now.reason}"
    if now.kind != request.kind or dict(now.params) != dict(request.params):
        return f"{service.name} needs something else now: {now.kind.value} ({now.reason})"
    return None


def _scale_still_needed(request: ActionRequest, service: Service, observed: ObservedService) -> str | None:
    """What follows load is needed while its service still follows load, and the way to its count is the same."""
    if service.scaling is None or service.scaling.controller_mode != "native":
        return f"the count of {service.name} does not follow load here any more"
    if service.scaling.paused:
        return f"the scaling of {service.name} is paused by now"
    if service.count_wish is not None:
        return f"the count of {service.name} is held by {service.count_wish.words}"
    if service.desired is DesiredState.STOPPED or observed.presence is not Presence.STARTED:
        return f"{service.name} is not running by now"
    wanted = int(request.params.get("replicas", -1))
    if observed.total == wanted:
        return f"{service.name} has {wanted} replicas by now"
    if ("up" if wanted > observed.total else "down") != request.direction:
        return f"{service.name} has {observed.total} replicas by now: {wanted} lie the other way"
    return None


def _rollout_still_needed(request: ActionRequest, service: Service, observed: ObservedService) -> str | None:
    if request.kind == Kind.ROLLBACK:
        return _rollback_still_needed(request, observed)
    if service.desired is DesiredState.STOPPED or observed.presence is not Presence.STARTED:
        return f"{service.name} is not running by now"
    if service.quarantined or service.rolled_back:
        return service.quarantined or service.rolled_back
    differs = versions.differing(service, observed)
    if differs is None:
        return f"{service.name} runs version {service.version} by now"
    if dict(_rollout(service, differs).params) != dict(request.params):
        return f"{service.name} is declared in version {service.version} by now"
    return None


def _rollback_still_needed(request: ActionRequest, observed: ObservedService) -> str | None:
    """What a failed watch asks for is needed while anything else than the version to go back to runs."""
    wanted = request.params.get("version")
    if observed.presence is not Presence.STARTED:
        return f"{observed.name} is not running by now"
    if list(versions.running(observed)) == [wanted]:
        return f"{observed.name} runs version {wanted} by now"
    return None


def _restart_still_needed(request: ActionRequest, service: Service, observed: ObservedService) -> str | None:
    if observed.status is ServiceStatus.UNKNOWN:
        return f"the state of {service.name} is unknown{_because(observed)}"
    replica = request.params.get("replica")
    now = converge(service, observed)
    if isinstance(now, Need) and now.kind == request.kind and dict(now.params) == dict(request.params):
        return None
    if replica is None:
        return None if observed.status is ServiceStatus.DOWN else f"{service.name} is {observed.status.value} by now"
    one = next((i for i in observed.instances if i.id == str(replica)), None)
    if one is None:
        return f"{service.name}#{replica} is gone"
    return None if one.status is InstanceStatus.DOWN else f"{service.name}#{replica} is {one.status.value} by now"


def facts(observed: ObservedService) -> Mapping[str, JsonValue]:
    """The evidence that travels beside a request: small, JSON-ready, never digested."""
    return {
        "status": observed.status.value,
        "presence": observed.presence.value,
        "ready": observed.ready,
        "existing": observed.existing,
        "total": observed.total,
        "version": observed.version,
        "detail": observed.detail[:DETAIL_MAX],
        "seen_by": observed.source,
        "instances": [
            {
                "id": i.id,
                "status": i.status.value,
                "pid": i.pid,
                "port": i.port,
                "identity": i.identity,
                "version": i.version,
                "detail": i.detail[:DETAIL_MAX],
            }
            for i in observed.instances[:20]  # bounded evidence; the counts above are of all
        ],
    }
