"""`approvals`: what waits for a person, and the person's answer.

An answer always goes to a running plane: it alone can look at the service again before a grant is carried out.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import PlaneClient
from fleetwarden.cli.listed import group
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import parse_id, show_id

__all__ = ["approvals"]

EVERY = "any"
approvals = group("approvals", "list", "What waits for a person, and the person's answer.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As it was printed: A-17.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the answer.")]


@approvals.command("list")
@connected
def list_(
    call: Call,
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", help="pending, granted, rejected, expired, superseded, closed, voided, or any."
        ),
    ] = "pending",
    target: Annotated[str | None, typer.Option("--target", metavar="SERVICE", help="Only of this service.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Items of one page.")] = 50,
    cursor: Annotated[int | None, typer.Option("--cursor", metavar="N", help="Go on below this one.")] = None,
) -> None:
    """Newest first; without --state those that wait."""
    from fleetwarden.cli.approvals_screen import show_approvals

    _known_state(state)
    wanted = None if state == EVERY else state
    with call.authority() as authority:
        body = authority.page("approvals", {"state": wanted, "target": target, "limit": limit, "cursor": cursor})
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    show_approvals(call.screen, body["items"], now, every_state=wanted is None or wanted != "pending")
    if body.get("next") is not None:
        more = f"approvals list --state {state} --cursor {body['next']}" + (f" --target {target}" if target else "")
        call.screen.line(f"older ones:  {call.command(more)}")


def _known_state(state: str) -> None:
    from fleetwarden.domain.lifecycles import ApprovalState

    known = [*map(str, ApprovalState), EVERY]
    if state not in known:
        raise Misconfigured(f"--state {state!r} is no state of an approval", hint=f"one of {', '.join(known)}")


@approvals.command("show")
@connected
def show(call: Call, name: IdArgument) -> None:
    """One approval: what it names, who answered, and how to answer it."""
    from fleetwarden.cli.approvals_screen import show_approval

    with call.authority() as authority:
        item = authority.show("approvals", name)
        now = authority.now()
    if call.as_json:
        call.show_json(item)
        return
    short = item["short_id"]
    grant, reject = call.command(f"approvals grant {short}"), call.command(f"approvals reject {short}")
    show_approval(call.screen, item, now, grant=grant, reject=reject)


@approvals.command("grant")
@connected
def grant(call: Call, name: IdArgument, reason: ReasonOption = "") -> None:
    """Say yes to exactly this request.  What changed meanwhile is looked at again before anything is done."""
    _answer(call, name, "approved", reason)


@approvals.command("reject")
@connected
def reject(call: Call, name: IdArgument, reason: ReasonOption = "") -> None:
    """Say no.  Also takes back a grant that has not begun."""
    _answer(call, name, "denied", reason)


def _answer(call: Call, name: str, decision: str, reason: str) -> None:
    job = f"action_approval:{parse_id('A', name)}"
    client: PlaneClient = call.plane()
    body: dict[str, Any] = client.post("/approvals/grant", {"job_id": job, "decision": decision, "reason": reason})
    if call.as_json:
        call.show_json(body)
        return
    short = show_id("A", parse_id("A", name))
    call.screen.line(str(body.get("message") or f"{short} is answered: {decision}"), indent=2)
    if decision == "approved":
        call.screen.line(f"look:  {call.command(f'approvals show {short}')}")
