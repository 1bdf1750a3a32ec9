"""`signals check|push`: what every declared signal answers now, and sending one sample.

Both talk to a running plane: it has the sources, their credentials and the samples that were pushed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.listed import group

__all__ = ["signals"]

signals = group("signals", "check", "Scaling signals: what they answer, and sending samples.")


@signals.command("check")
@connected
def check(
    call: Call,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only one page, of at most N signals.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="C", help="Only the page behind this one: `next` of --json.")
    ] = None,
) -> None:
    """What every signal answers now: value, age, unit, and the service it is for."""
    from fleetwarden.cli.signals_screen import show_readings

    plane, query = call.plane(), {"limit": limit, "cursor": cursor}
    body = plane.get("/signals", query)
    while limit is None and cursor is None and body["next"] is not None:
        more = plane.get("/signals", {"cursor": body["next"]})
        body = {**more, "items": [*body["items"], *more["items"]]}
    if call.as_json:
        call.show_json(body)
    else:
        show_readings(call.screen, body["items"])
        if body["next"] is not None:
            call.screen.line(f"more:  {call.command(_next_page(limit, body['next']))}")
    if any(one["fault"] is not None for one in body["items"]):
        raise typer.Exit(1)


def _next_page(limit: int | None, cursor: str) -> str:
    return "signals check" + ("" if limit is None else f" --limit {limit}") + f" --cursor {cursor}"


@signals.command("push")
@connected
def push(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Who measured it.")],
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="What it is about.")],
    value: Annotated[float, typer.Option("--value", metavar="N", help="0 or more.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="As signals.yml declares it: queue, cpu, …")],
    unit: Annotated[str, typer.Option("--unit", metavar="UNIT", help="As signals.yml declares it: items, percent, …")],
    aggregation: Annotated[
        str, typer.Option("--aggregation", metavar="A", help="fleet_total or per_replica.")
    ] = "fleet_total",
    sequence: Annotated[
        int | None, typer.Option("--sequence", metavar="N", min=0, help="Larger than that of the sample before.")
    ] = None,
) -> None:
    """Push one sample, measured now."""
    from fleetwarden.app.running import system_clock
    from fleetwarden.domain.identifiers import rfc3339

    sample = {
        "source": source,
        "service": service,
        "kind": kind,
        "value": value,
        "unit": unit,
        "aggregation": aggregation,
        "sampled_at": rfc3339(system_clock().now()),
        "sequence": sequence,
    }
    body = call.plane().post("/signals", {"samples": [sample]})
    call.answer(body, f"taken: {kind} {value:g} {unit} of {service}, from {source}")
