"""What makes a person's own stop, start or count stand: an override, written with the fence of that very action.

Without it the next pass would put the service back to what the files say.  It is written in commit 1's transaction, so
that no pass can come between, and only for what really acts: a dry run holds nothing.  It has no end; whoever wants
the files to rule again clears it.
"""

from __future__ import annotations

from fleetwarden.controllers.override_revisions import note_override
from fleetwarden.controllers.wishes import answer_changes
from fleetwarden.domain.actions import ActionRequest, Kind
from fleetwarden.domain.desired import Override
from fleetwarden.domain.fleet import DesiredState, Service
from fleetwarden.ports.desired import OverrideDraft
from fleetwarden.ports.stores import Tx

__all__ = ["held_by", "hold"]


def hold(tx: Tx, request: ActionRequest, service: Service) -> Override | None:
    """Write the override that a person's request asks for; None where nothing has to be held.

    Part of the caller's transaction.  What a standing override says besides stays, unless it has an end of its own.
    """
    if not request.holds or request.dry_run:
        return None
    count, state = _asked(request, service)
    if count is None and state is None:
        return None
    before = next((one for one in tx.service_overrides.standing() if one.service == request.target), None)
    if before is not None and before.until is None:
        count = before.replicas if count is None else count
        state = before.state if state is None else state
    made = tx.service_overrides.put(
        OverrideDraft(
            service=request.target, replicas=count, state=state, reason=request.reason, by=request.requested_by
        )
    )
    answer_changes(tx, made)
    note_override(tx, service, made)
    tx.journal.write(
        topic="override",
        actor=request.requested_by,
        subject=request.target,
        severity="warning",
        summary=f"{request.kind} {request.target} of {request.requested_by} is held by override {made.id}: "
        f"{made.words}",
        detail={"override": made.id, "reason": request.reason},
    )
    return made


def _asked(request: ActionRequest, service: Service) -> tuple[int | None, DesiredState | None]:
    """The count and the state that have to be held, each None if it has not."""
    replicas = request.params.get("replicas")
    count = replicas if type(replicas) is int else None
    if request.kind == Kind.SCALE:
        return count, None
    if request.kind == Kind.STOP:
        return None, DesiredState.STOPPED
    if request.kind == Kind.START:
        as_declared = service.desired is DesiredState.RUNNING and service.state_wish is None
        return (
            None if count == service.replicas else count,
            None if as_declared else DesiredState.RUNNING,
        )
    return None, None


def held_by(request: ActionRequest) -> str:
    """What will make a person's request stand, in words; "" where nothing has to."""
    if not request.holds or request.dry_run or request.kind not in (Kind.SCALE, Kind.STOP, Kind.START):
        return ""
    clear = f"fleetwarden override clear {request.target}"
    if request.kind == Kind.START:
        return f"what the files do not say already is held by an override once it has begun; {clear} ends that"
    return f"an override holds it once it has begun, so that no pass puts it back; {clear} ends that"
