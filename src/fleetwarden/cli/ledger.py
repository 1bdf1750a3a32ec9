"""The lists: what was decided, carried out, queued and noted, newest first; and any one record by its printed id.

They answer from the running plane, or from the store itself while none runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.cli.events import add_send
from fleetwarden.cli.listed import group
from fleetwarden.cli.quarantine import add_clear
from fleetwarden.cli.times import since_of

__all__ = ["GROUPS"]

_ABOUT = {
    "intents": "The counts that followed load, revision by revision.",
    "decisions": "What policy decided, and why.",
    "executions": "What was carried out, and how it ended.",
    "actions": "Actions from authorisation to outcome.",
    "events": "What monitoring systems told, and what became of it.",
    "watches": "Watches over services after a change: what they saw, and how they ended.",
    "quarantines": "Versions that failed their watch, and clearing one.",
    "work": "Durable steps: granted approvals, watches, retries.",
    "reports": "Passes of the reconciler that did or refused something.",
    "foreign": "What somebody else set on services, and what became of it.",
    "messages": "Messages to people: what was sent, what waits, what was given up.",
    "journal": "Who changed what, and every notice.",
}

_NAMES = {"quarantines": "quarantine"}  # where the command has another name than the list

TargetOption = Annotated[str | None, typer.Option("--target", metavar="SERVICE", help="Only of this service.")]
KindOption = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")]
StateOption = Annotated[
    str | None, typer.Option("--state", metavar="STATE", help="Only in this state (of decisions: with this verdict).")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only since then: 2h, or 2027-01-31T12:00:00Z.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=500, help="Items of one page.")]
CursorOption = Annotated[int | None, typer.Option("--cursor", metavar="N", help="Go on below this one.")]


def _topic(topic: str, about: str) -> typer.Typer:
    """The group of one topic."""
    made = group(_NAMES.get(topic, topic), "list", about)

    def listing(
        call: Call,
        target: TargetOption = None,
        kind: KindOption = None,
        state: StateOption = None,
        since: SinceOption = None,
        limit: LimitOption = 50,
        cursor: CursorOption = None,
    ) -> None:
        filters = {"target": target, "kind": kind, "state": state, "since": since, "limit": limit, "cursor": cursor}
        _list(call, topic, filters)

    def journal(
        call: Call,
        target: TargetOption = None,
        kind: KindOption = None,
        since: SinceOption = None,
        limit: LimitOption = 50,
        cursor: CursorOption = None,
    ) -> None:
        filters = {"target": target, "kind": kind, "since": since, "limit": limit, "cursor": cursor}
        _list(call, topic, filters)

    def reports(
        call: Call,
        kind: KindOption = None,
        since: SinceOption = None,
        limit: LimitOption = 50,
        cursor: CursorOption = None,
    ) -> None:
        _list(call, topic, {"kind": kind, "since": since, "limit": limit, "cursor": cursor})

    def showing(call: Call, name: Annotated[str, typer.Argument(metavar="ID", help="As it was printed.")]) -> None:
        _show(call, topic, name)

    first: dict[str, Callable[..., None]] = {"journal": journal, "reports": reports}
    made.command("list", help="Newest first.")(connected(first.get(topic, listing)))
    if topic == "events":
        add_send(made)
    if topic == "quarantines":
        add_clear(made)
    made.command("show", help="One record, whole.")(connected(showing))
    return made


def _list(call: Call, topic: str, filters: Mapping[str, object]) -> None:
    from fleetwarden.app.running import system_clock
    from fleetwarden.cli.ledger_screens import show_list

    clock = system_clock()
    given = {**filters, "since": since_of(filters.get("since"), clock.now())}
    with call.authority() as authority:
        body = authority.page(topic, given)
        now = authority.now()
    if call.as_json:
        call.show_json(body)
        return
    words = [f"--{name} {value}" for name, value in filters.items() if value is not None and name != "cursor"]
    show_list(
        call.screen,
        topic,
        body,
        now,
        more=lambda cursor: call.command(" ".join([_NAMES.get(topic, topic), "list", *words, f"--cursor {cursor}"])),
    )


def _show(call: Call, topic: str, name: str) -> None:
    from fleetwarden.cli.ledger_screens import show_record

    with call.authority() as authority:
        item = authority.show(topic, name)
        now = authority.now()
    if call.as_json:
        call.show_json(item)
    else:
        show_record(call.screen, item, now)


GROUPS = tuple(_topic(topic, about) for topic, about in _ABOUT.items())
