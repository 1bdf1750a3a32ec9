"""`events send`: a body of events to the running plane, from a file, standard input, or made of options.

It goes the way that every sender's goes, so that what it shows is what a sender would get.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fleetwarden.cli.calling import Call, connected

__all__ = ["add_send"]

BYTES_MAX: Final = 64 * 1024 * 1024
SHAPES: Final = ("alertmanager", "uptime-kuma", "grafana", "portainer", "generic")


def add_send(group: typer.Typer) -> None:
    """Add the command to the group of events."""
    group.command("send", help="Send a body of events: a file, - for standard input, or one made of options.")(
        connected(send)
    )


def send(
    call: Call,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="A body as a sender sends it; - reads it.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="By the address of that source (/events/NAME).")
    ] = None,
    shape: Annotated[str, typer.Option("--shape", metavar="KIND", help=f"Of a made body: {', '.join(SHAPES)}.")] = (
        "alertmanager"
    ),
    service: Annotated[str, typer.Option("--service", metavar="NAME", help="What it is about.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="The alert's name.")] = "ServiceDown",
    severity: Annotated[str, typer.Option("--severity", metavar="WORD", help="Its severity.")] = "critical",
    resolved: Annotated[bool, typer.Option("--resolved", help="It is over.")] = False,
    summary: Annotated[str, typer.Option("--summary", metavar="TEXT", help="What to say.")] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="May stand several times.")] = None,
) -> None:
    """Send it, and say what was kept."""
    if file is not None:
        body: dict[str, Any] | bytes = _read(file)
    else:
        if not service:
            raise typer.BadParameter("give a FILE, or --service NAME for a made one")
        made = {"service": service, "name": name, "severity": severity, "summary": summary or f"{name} of {service}"}
        body = _made(shape, made, _labels(label or []), resolved=resolved)
    answered = call.plane().post(f"/events/{source}" if source else "/events", body)
    call.answer(answered, f"kept: {answered['accepted']} new, {answered['duplicates']} known already")
    if call.as_json:
        return
    for one in answered["events"]:
        about = one["service"] or f"{one['subject']} (no service)"
        work = f", step {one['work_id']}" if one["work_id"] else ", known already"
        call.screen.line(f"  {one['event_id']}  {one['severity']}  {about}{work}", indent=4)


def _read(file: str) -> bytes:
    try:
        read = sys.stdin.buffer.read(BYTES_MAX + 1) if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    if len(read) > BYTES_MAX:
        raise typer.BadParameter(f"{file} has more than {BYTES_MAX:,} bytes")
    return read


def _labels(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"--label {one!r} is no K=V")
        found[key] = value
    return found


def _made(shape: str, told: dict[str, str], labels: dict[str, str], *, resolved: bool) -> dict[str, Any]:
    """A body of that shape, dated now."""
    from fleetwarden.app.running import system_clock
    from fleetwarden.domain.identifiers import rfc3339

    if shape not in SHAPES:
        raise typer.BadParameter(f"--shape {shape!r} is none of {', '.join(SHAPES)}")
    now = rfc3339(system_clock().now()) or ""
    labels = {"alertname": told["name"], "service": told["service"], "severity": told["severity"], **labels}
    if shape == "uptime-kuma":
        beat = {"status": 1 if resolved else 0, "time": now[:23].replace("T", " "), "msg": told["summary"]}
        return {"heartbeat": beat, "monitor": {"name": told["service"]}, "msg": told["summary"]}
    if shape == "generic":
        status = "up" if resolved else "down"
        return {"subject": told["service"], "status": status, "timestamp": now, "labels": labels, **_some(told)}
    status = "resolved" if resolved else "firing"
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": told["summary"]},
        "startsAt": now,
        "endsAt": now if resolved else "0001-01-01T00:00:00Z",
    }
    group = {"version": "4", "status": status, "receiver": "fleetwarden", "groupKey": "{}:{}", "alerts": [alert]}
    if shape == "grafana":
        return {**group, "version": "1", "orgId": 1, "state": "ok" if resolved else "alerting"}
    return {**group, "receiver": "portainer"} if shape == "portainer" else group


def _some(told: dict[str, str]) -> dict[str, str]:
    return {key: told[key] for key in ("severity", "summary")}
