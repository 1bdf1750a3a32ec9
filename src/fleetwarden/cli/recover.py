"""`recover`: actions whose outcome nobody knows, and a person's word on one of them.

Evidence settles most of them by itself.  What it cannot settle waits here; settling never repeats the action.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group
from fleetwarden.cli.times import ago, localised, parsed, shown
from fleetwarden.cli.wording import asked_for, status_word
from fleetwarden.domain.errors import Misconfigured

__all__ = ["recover"]

OUTCOMES = ("succeeded", "failed")
recover = group("recover", "list", "Actions whose outcome is unknown, and a person's word on them.")


@recover.command("list")
@connected
def list_(call: Call) -> None:
    """Every action whose outcome is unknown."""
    with call.authority() as authority:
        body = authority.unknown()
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    items = body["items"]
    if not items:
        call.screen.line("no outcome is unknown")
        return
    rows = []
    for one in items:
        horizon = parsed(one.get("horizon_at"))
        waits = horizon is not None and now is not None and horizon > now
        failed = f"as failed from {shown(one['horizon_at'], now)}" if waits else "either way"
        told = localised(str(one.get("note") or one.get("detail") or ""), now)
        rows.append((one["id"], asked_for(one), ago(one["started_at"], now), failed, told))
    call.screen.table(("ID", "WHAT", "CALLED", "CAN BE SETTLED", "WHAT IS KNOWN"), rows)
    example = f'recover settle {items[0]["id"]} --as succeeded --reason "…"'
    call.screen.line(f"look at the service, then say what you saw:  {call.command(example)}", indent=2)


@recover.command("settle")
@connected
def settle(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="ID", help="As it was printed: X-91.")],
    outcome: Annotated[str, typer.Option("--as", metavar="OUTCOME", help="succeeded or failed: what really happened.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What you looked at and saw.")],
) -> None:
    """Say what really happened.  The action is not repeated; failed is taken only once it can no longer land."""
    if outcome not in OUTCOMES:
        raise Misconfigured(f"--as {outcome!r} is neither succeeded nor failed", hint="nothing was settled")
    with call.authority() as authority:
        item = authority.settle(name, outcome=outcome, reason=reason)
    if call.as_json:
        call.show_json(item)
    else:
        by = item.get("settled_by") or "you"
        call.screen.line(f"{item['id']}, {asked_for(item)}: settled as {status_word(item['state'])} by {by}", indent=2)
