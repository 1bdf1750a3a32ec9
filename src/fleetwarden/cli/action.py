"""`action`: a person asks for an action, may wait for what becomes of it, and says how one of their own ended.

The policy decides as for every controller.  Waiting changes nothing: a command that is interrupted has still proposed.
"""

from __future__ import annotations

import json
from threading import Event
from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.client import PlaneClient, quoted
from fleetwarden.cli.wording import asked_for, status_word
from fleetwarden.domain.errors import Misconfigured

__all__ = ["action"]

action = typer.Typer(name="action", help="Propose an action as a person.", no_args_is_help=True, rich_markup_mode=None)
SHORT = {
    "restart": "restart_service",
    "start": "start_service",
    "stop": "stop_service",
    "scale": "scale_service",
    "deploy": "deploy_service",
    "rollback": "rollback_service",
}
LOOK_EVERY_S = 0.5
ENDED = frozenset({"succeeded", "failed", "simulated", "abandoned", "recovery_pending"})
REFUSED = frozenset({"rejected", "expired", "superseded", "voided"})
NEVER = REFUSED | {"denied", "lapsed"}  # of an action that is carried out elsewhere


@action.command("propose")
@connected
def propose(
    call: Call,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="restart, start, stop, scale, deploy or rollback.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The service.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the decision.")],
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="K=V", help="Such as replicas=3; may stand several times.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="N", help="Of scale and start: --param replicas=N.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="V", help="Of deploy and rollback: --param version=V.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the outcome, through an approval as well.")] = False,
    break_glass: Annotated[
        bool, typer.Option("--break-glass", help="Role admin: passes freezes and windows, and everybody is told.")
    ] = False,
    own: Annotated[bool, typer.Option("--own", help="KIND is one of your own, which you carry out yourself.")] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Idempotency key: the same again is one request."),
    ] = None,
) -> None:
    """Ask for an action.  A stop or a count that was asked for holds until its override is cleared."""
    ours = SHORT.get(kind, kind) in SHORT.values()
    if own and ours:
        raise Misconfigured(f"{SHORT.get(kind, kind)} is fleetwarden's own to carry out", hint="leave out --own")
    if not own and not ours:
        raise Misconfigured(
            f"{kind!r} is none of {', '.join(SHORT.values())}", hint="--own proposes a kind that you carry out yourself"
        )
    client: PlaneClient = call.plane()
    body: dict[str, Any] = {
        "kind": SHORT.get(kind, kind),
        "target": target,
        "params": _params([*(params or []), *_short(replicas, version)]),
        "reason": reason,
    }
    body |= {"idempotency_key": key, "break_glass": break_glass}
    proposed: dict[str, Any] = client.post("/actions", body)
    if not call.as_json:
        _show(call, proposed, own=own)
    good = proposed["decision"] != "deny"
    if wait and good:
        good = _await(call, client, proposed)
    if call.as_json:
        call.show_json(proposed)
    if not good:
        raise typer.Exit(1)


ActionId = Annotated[str, typer.Argument(metavar="ID", help="What `action propose` answered with: D-… or A-….")]


@action.command("claim")
@connected
def claim(call: Call, name: ActionId) -> None:
    """Take up what was allowed, right before you do it yourself; policy is asked again, and it is taken up once."""
    _told(call, call.plane().post(f"/actions/{quoted(name)}/claim", {}))


@action.command("result")
@connected
def result(
    call: Call,
    name: ActionId,
    failed: Annotated[bool, typer.Option("--failed", help="It did not go well.")] = False,
    detail: Annotated[str, typer.Option("--detail", metavar="TEXT", help="Kept with the action.")] = "",
    code: Annotated[str | None, typer.Option("--code", metavar="WORD", help="A machine word for a failure.")] = None,
) -> None:
    """Say how an action that you carried out ended, once; its approval is closed with it."""
    body: dict[str, Any] = {"ok": not failed, "detail": detail}
    _told(call, call.plane().post(f"/actions/{quoted(name)}/result", body | ({"code": code} if code else {})))


def _told(call: Call, told: dict[str, Any]) -> None:
    if call.as_json:
        call.show_json(told)
        return
    line = f"{told['execution_id']} ({told['id']}), {asked_for(told)}: {status_word(told['state'])}"
    call.screen.line(f"{line} by {told['claimed_by']}", indent=2)


def _short(replicas: int | None, version: str | None) -> list[str]:
    """The options that stand for a param, as one would write it."""
    given = {"replicas": replicas, "version": version}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def _params(given: list[str]) -> dict[str, Any]:
    """`K=V`, where V is a number or true/false as JSON has it, and else text."""
    found: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise Misconfigured(f"--param {one!r} is not K=V", hint="such as --param replicas=3")
        if name in found:
            raise Misconfigured(f"--param {name} stands twice", hint="nothing was proposed")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        # A version is text even where it looks like a number: 1.10 is not 1.1.
        found[name] = read if isinstance(read, (int, bool)) and name != "version" else value
    return found


def _show(call: Call, proposed: dict[str, Any], *, own: bool) -> None:
    screen = call.screen
    words = {
        "allow": "allowed",
        "allow_notify": "allowed",
        "queue_approval": "waits for approval",
        "deny": "denied",
    }
    ids = dict.fromkeys(
        (proposed["decision_id"], proposed["approval_id"], proposed["action_id"])
    )  # of one's own: twice
    told = f"{words[proposed['decision']]} ({', '.join(one for one in ids if one)}): {call.words(proposed['reason'])}"
    screen.line(told, indent=2, tone="warn" if proposed["decision"] == "deny" else "")
    if proposed["dry_run"]:
        screen.line("dry run: nothing will be changed", indent=2)
    if proposed["break_glass"]:
        screen.line("the glass is broken: freezes and windows are passed, and everybody is told", indent=2, tone="warn")
    if proposed["decision"] == "deny":
        return
    if proposed["held"]:
        screen.line(f"{call.words(proposed['held'])}", indent=2)
    if proposed["approval_id"] and not proposed["action_id"]:
        screen.line(f"look:  {call.command('approvals show ' + proposed['approval_id'])}")
    elif proposed["action_id"]:
        screen.line(f"look:  {call.command('actions show ' + proposed['action_id'])}")
    if own:
        once = "once it is granted" if proposed["approval_id"] else "right before you do it"
        screen.line(f"then:  {call.command('action claim ' + proposed['action_id'])}  {once}", indent=2)


def _await(call: Call, client: PlaneClient, proposed: dict[str, Any]) -> bool:
    """Look again until it has ended; notes the outcome in `proposed` and says whether it is a good one."""
    from fleetwarden.app.running import system_clock

    clock = system_clock()
    while True:
        number = proposed["action_id"] or _begun(client, proposed)
        if number is not None:
            record = client.get(f"/actions/{number}")
            if record["state"] in ENDED:
                proposed["action_id"], proposed["action"] = number, record
                detail = f": {record['detail']}" if record["detail"] else ""
                call.progress(f"{number}: {status_word(record['state'])}{detail}")
                return bool(record["state"] in ("succeeded", "simulated"))
            if record["state"] in NEVER:
                proposed["action"] = record
                call.progress(f"{number}: {status_word(record['state'])}: {record['reason']}", tone="warn")
                return False
        else:
            approval = client.get(f"/approvals/{proposed['approval_id']}")
            if approval["status"] in REFUSED:
                proposed["approval"] = approval
                call.progress(f"{approval['short_id']} is {approval['status']}: {approval['note']}", tone="warn")
                return False
        clock.wait(Event(), LOOK_EVERY_S)


def _begun(client: PlaneClient, proposed: dict[str, Any]) -> str | None:
    """The newest action of the approval, if there is one by now."""
    found = client.get("/actions", {"target": proposed["approval"]["target"], "limit": 50})["items"]
    return next((one["id"] for one in found if one["approval_id"] == proposed["approval_id"]), None)
