"""History: everything that happened to one service, in one timeline, newest first.

Decisions, executions, approvals, and what the journal says of it: overrides, changes by somebody else, notices, who did
what.  Works on a store alone.  A page is cut by time and by nothing else: each source goes on where it was left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.rule_texts import rule_texts
from fleetwarden.domain.actions import Source
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import JsonValue, Micros, parse_id
from fleetwarden.ports.stores import JournalEntry, Page, Store, Tx

__all__ = ["History"]

LIMIT_MAX = 500


class _Source(NamedTuple):
    """One kind of row: its letter in the cursor, how it is read, when it happened, and how it is shown."""

    letter: str
    rows: Callable[[Tx, Page], Sequence[Any]]
    at: Callable[[Any], Micros]
    show: Callable[[Any], views.Item]


def _decision(one: Any) -> views.Item:
    shown = views.decision(one)
    said = f"{shown['kind']}: {one.verdict.value}, {one.reason}"
    return _entry("decision", shown, said, one.request.requested_by)


def _execution(one: Any) -> views.Item:
    shown = views.execution(one)
    said = f"{one.kind}: {one.state.value}" + (f", {one.detail}" if one.detail else "")
    return _entry("execution", shown, said, one.source)


def _approval(one: Any) -> views.Item:
    shown = views.approval(one)
    said = f"{shown['kind']} waits for a person: {one.reason}"
    if shown["ended_at"] is not None:
        said = f"{said} ({one.status.value}{': ' + one.note if one.note else ''})"
    return _entry("approval", shown, said, one.request.requested_by)


def _journal(one: JournalEntry) -> views.Item:
    return _entry(one.topic, views.journal(one), one.summary, one.actor)


def _entry(what: str, shown: views.Item, said: str, actor: str) -> views.Item:
    """One line of the timeline, with the record itself behind it."""
    return {"id": shown["id"], "at": shown["at"], "what": what, "actor": actor, "summary": said, "record": shown}


_SOURCES = (
    _Source("D", lambda tx, page: tx.decisions.list(page), lambda one: int(one.at), _decision),
    _Source("X", lambda tx, page: tx.executions.list(page), lambda one: int(one.at), _execution),
    _Source("A", lambda tx, page: tx.approvals.list(page), lambda one: int(one.created_at), _approval),
    _Source("N", lambda tx, page: tx.journal.list(page), lambda one: int(one.at), _journal),
)


class History:
    def __init__(self, store: Store) -> None:
        self._store = store

    def of(
        self, caller: Caller, service: str, *, since: Micros | None = None, limit: int = 50, cursor: str = ""
    ) -> dict[str, JsonValue]:
        """`{"service", "items", "next"}`; each item `{id, at, what, actor, summary, record}`.

        A service of which nothing is known has an empty history: it may have left the registry long ago.  Raises
        Forbidden, Misconfigured (limit not in 1 to 500, no such cursor), StoreUnavailable.
        """
        require(caller, Role.VIEWER)
        if not 1 <= limit <= LIMIT_MAX:
            raise Misconfigured(f"limit {limit} is out of range", hint=f"1 to {LIMIT_MAX}")
        befores = _read_cursor(cursor)
        page = Page(target=service, since=since, limit=limit)

        def read(tx: Tx) -> list[Sequence[Any]]:
            return [
                source.rows(tx, msgspec.structs.replace(page, before=befores.get(source.letter))) for source in _SOURCES
            ]

        rows = self._store.read(read)
        items, left = _merged(rows, limit, befores)
        self._store.read(lambda tx: _add_rule_texts(tx, rows[0], items))
        self._store.read(lambda tx: _name_people(tx, items))
        return {"service": service, "items": items, "next": left}


def _add_rule_texts(tx: Tx, decisions: Sequence[Any], items: Sequence[JsonValue]) -> None:
    """Put the text of its rule, as it was then, beside each decision."""
    known = {one.id: one for one in decisions}
    shown = [item["record"] for item in items if item["what"] == "decision"]
    for record, text in zip(shown, rule_texts(tx, [known[record["id"]] for record in shown]), strict=True):
        record["rule_text"] = text


def _name_people(tx: Tx, items: Sequence[JsonValue]) -> None:
    """Put the person's name, which its decision holds, where an execution only says that somebody asked."""
    for item in items:
        if item["what"] == "execution" and item["actor"] in (Source.OPERATOR, Source.API):
            decision = tx.decisions.get(parse_id("D", item["record"]["decision_id"]))
            item["actor"] = decision.request.asked_by


def _merged(rows: Sequence[Sequence[Any]], limit: int, befores: dict[str, int]) -> tuple[list[JsonValue], str | None]:
    """The newest of all sources, and where each goes on; None where nothing is left."""
    taken = [0] * len(rows)
    items: list[JsonValue] = []
    while len(items) < limit:
        heads = [(source.at(rows[i][taken[i]]), -i) for i, source in enumerate(_SOURCES) if taken[i] < len(rows[i])]
        if not heads:
            break
        which = -max(heads)[1]
        items.append(_SOURCES[which].show(rows[which][taken[which]]))
        taken[which] += 1
    if all(taken[i] == len(rows[i]) and len(rows[i]) < limit for i in range(len(rows))):
        return items, None
    after = dict(befores)
    for i, source in enumerate(_SOURCES):
        if taken[i]:
            after[source.letter] = int(rows[i][taken[i] - 1].seq)
    return items, "".join(f"{letter}{seq}" for letter, seq in sorted(after.items()))


def _read_cursor(cursor: str) -> dict[str, int]:
    """`A4D17N90X12` as numbers by letter.  Raises Misconfigured."""
    found: dict[str, int] = {}
    rest = cursor
    while rest:
        letter, digits = rest[0], ""
        for character in rest[1:]:
            if not (character.isascii() and character.isdigit()):
                break
            digits += character
        if letter in found or letter not in {one.letter for one in _SOURCES} or not 1 <= len(digits) <= 18:
            raise Misconfigured("that is no cursor of a history", hint="pass on what 'next' of the page before said")
        found[letter] = int(digits)
        rest = rest[1 + len(digits) :]
    return found
