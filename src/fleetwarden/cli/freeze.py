"""`freeze`: stop all actuation at once, see what is frozen, and let it go on.

Works on the running plane, or on the store itself while none runs, so that a fleet can be frozen before its plane is
started.  Once `freeze on` has answered nothing further is begun; the answer names what was already under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group
from fleetwarden.cli.options import Duration
from fleetwarden.cli.times import shown
from fleetwarden.cli.wording import asked_for, freeze_words
from fleetwarden.domain.errors import Misconfigured

__all__ = ["freeze"]

freeze = group("freeze", "status", "Stop all actuation, and let it go on again.")

ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown wherever the freeze is.")]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only services of this group.")]
KindOption = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only actions of this kind.")]
ServiceOption = Annotated[str | None, typer.Option("--service", metavar="SERVICE", help="Only this service.")]


def _scope(group: str | None, kind: str | None, service: str | None) -> tuple[str, str]:
    """The one scope that was given and its name, or ("", "")."""
    given = [
        (name, value) for name, value in (("group", group), ("kind", kind), ("service", service)) if value is not None
    ]
    if len(given) > 1:
        names = " and ".join(f"--{name}" for name, _ in given)
        raise Misconfigured(
            f"{names} together: a freeze is of one thing", hint="nothing was changed; several freezes may stand at once"
        )
    return given[0] if given else ("", "")


@freeze.command("on")
@connected
def on(
    call: Call,
    reason: ReasonOption = "",
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SPAN", parser=Duration, help="Until then: 90s, 10m, 2h, 7d.")
    ] = None,
    group: GroupOption = None,
    kind: KindOption = None,
    service: ServiceOption = None,
) -> None:
    """Freeze the whole fleet, or one group, kind or service of it: nothing is begun there until it is lifted."""
    scope, value = _scope(group, kind, service)
    with call.authority(makes=True) as authority:
        body = authority.freeze(reason=reason, for_s=for_s, scope=scope or "all", value=value)
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    what = f"Frozen, {scope} {value}: nothing further of it is begun." if scope else "Frozen: nothing further is begun."
    call.screen.line(what, tone="warn")
    _show_freezes(call, body, now)
    _show_in_flight(call, body)
    call.screen.line(f"lift it:  {call.command('freeze off' + (f' --{scope} {value}' if scope else ''))}")


@freeze.command("off")
@connected
def off(
    call: Call,
    reason: ReasonOption = "",
    group: GroupOption = None,
    kind: KindOption = None,
    service: ServiceOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every freeze, those of parts and of others included.")] = False,
) -> None:
    """Lift the freeze of the whole fleet, that of one part, or all.  A FREEZE file has to be removed by hand."""
    scope, value = _scope(group, kind, service)
    if every and scope:
        raise Misconfigured(f"--all and --{scope} together: one of them", hint="nothing was changed")
    with call.authority() as authority:
        body = authority.thaw(reason=reason, scope=scope or ("" if every else "all"), value=value)
        now = authority.now()
    left = body.get("freezes") or ()
    stays = bool(body.get("frozen")) and (every or bool(body.get("freeze_file")) or any(map(_is_whole, left)))
    if call.as_json:
        call.show_json(body)
    elif scope:
        call.screen.line(f"The freeze of {scope} {value} is lifted.")
        _show_freezes(call, body, now)
    elif stays:
        call.screen.line("Still frozen.", tone="warn")
        _show_freezes(call, body, now)
    elif left:
        call.screen.line("The whole fleet is not frozen; parts of it are:", tone="warn")
        _show_freezes(call, body, now)
        for one in left:
            call.screen.line(f"lift it:  {call.command('freeze off --' + one['scope'] + ' ' + one['value'])}")
        call.screen.line(f"lift all:  {call.command('freeze off --all')}")
    else:
        call.screen.line("Nothing is frozen: what is needed is decided anew on the next pass.")
    if stays and not scope:
        raise typer.Exit(1)


def _is_whole(freeze: Mapping[str, Any]) -> bool:
    return bool(freeze["scope"] == "all")


@freeze.command("status")
@connected
def status(call: Call) -> None:
    """What is frozen, by whom, why and until when; and what is under way."""
    with call.authority() as authority:
        body = authority.freeze_status()
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    if not body.get("frozen"):
        call.screen.line("nothing is frozen")
    _show_freezes(call, body, now)
    _show_in_flight(call, body)


def _show_freezes(call: Call, body: Mapping[str, Any], now: Any) -> None:
    for one in body.get("freezes") or ():
        call.screen.line(f"  {freeze_words(one, shown(one.get('until'), now))}", indent=4, tone="warn")
    if body.get("freeze_file"):
        call.screen.line(f"  frozen by the file {body['freeze_file']}: remove it", indent=4, tone="warn")


def _show_in_flight(call: Call, body: Mapping[str, Any]) -> None:
    """Calls that were made before: a freeze cannot take them back."""
    running = body.get("in_flight_actions") or [{"id": one} for one in body.get("in_flight") or ()]
    for one in running:
        what = asked_for(one) if "kind" in one else "an action"
        look = call.command(f"actions show {one['id']}")
        call.screen.line(f"  already under way: {one['id']}, {what}:  {look}", indent=4)
