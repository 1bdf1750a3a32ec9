"""Reading the ledger: lists, newest first, page by page, and single records by the id that was printed.

Works on a store alone, so that a person can read while no plane runs.  A store that cannot be read raises; it never
answers with an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleetwarden.app import views, wishes
from fleetwarden.app.captured import capture_view
from fleetwarden.app.event_views import event_view
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.intent_views import intent_view
from fleetwarden.app.message_views import message_view
from fleetwarden.app.rule_texts import rule_text
from fleetwarden.app.watch_views import quarantine_view, watch_view
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.identifiers import JsonValue, parse_id
from fleetwarden.ports.stores import Page, Store, Tx

__all__ = ["TOPICS", "Lists"]

LIMIT_MAX = 500


class Topic:
    """One kind of list: how its rows are read, shown, numbered and addressed."""

    def __init__(
        self,
        prefix: str,
        rows: Callable[[Tx, Page], Sequence[Any]],
        show: Callable[[Any], views.Item],
        one: Callable[[Tx, int], Any],
    ) -> None:
        self.prefix = prefix
        self.rows = rows
        self.show = show
        self.one = one


def _first(rows: Sequence[Any], what: str) -> Any:
    if not rows:
        raise NotFound(f"there is no {what}")
    return rows[0]


def _execution(tx: Tx, seq: int) -> Any:
    rows = tx.executions.of_action(seq)
    return rows[-1] if rows else _first([], f"execution X-{seq}")


def _at(seq: int) -> Page:
    return Page(before=seq + 1, limit=1)


def _exactly(rows: Sequence[Any], seq: int, what: str) -> Any:
    return _first([one for one in rows if one.seq == seq], what)


TOPICS: dict[str, Topic] = {
    "approvals": Topic(
        "A", lambda tx, page: tx.approvals.list(page), views.approval, lambda tx, n: tx.approvals.get(n)
    ),
    "intents": Topic("I", lambda tx, page: tx.intents.list(page), intent_view, lambda tx, n: tx.intents.get(n)),
    "decisions": Topic(
        "D", lambda tx, page: tx.decisions.list(page), views.decision, lambda tx, n: tx.decisions.get(n)
    ),
    "executions": Topic("X", lambda tx, page: tx.executions.list(page), views.execution, _execution),
    "actions": Topic("X", lambda tx, page: tx.outbox.list(page), views.record, lambda tx, n: tx.outbox.get(n)),
    "work": Topic("W", lambda tx, page: tx.work.list(page), views.work, lambda tx, n: tx.work.get(n)),
    "reports": Topic("R", lambda tx, page: tx.reports.list(page), views.report, lambda tx, n: tx.reports.get(n)),
    "events": Topic("E", lambda tx, page: tx.events.list(page), event_view, lambda tx, n: tx.events.get(n)),
    "freezes": Topic(
        "F",
        lambda tx, page: tx.freezes.list(page),
        views.freeze,
        lambda tx, n: _exactly(tx.freezes.list(_at(n)), n, f"freeze F-{n}"),
    ),
    "service_overrides": Topic(
        "O",
        lambda tx, page: tx.service_overrides.list(page),
        wishes.override_view,
        lambda tx, n: _exactly(tx.service_overrides.list(_at(n)), n, f"override O-{n}"),
    ),
    "foreign": Topic(
        "C",
        lambda tx, page: tx.foreign.list(page),
        wishes.change_view,
        lambda tx, n: _exactly(tx.foreign.list(_at(n)), n, f"change C-{n} by somebody else"),
    ),
    "watches": Topic("V", lambda tx, page: tx.watches.list(page), watch_view, lambda tx, n: tx.watches.get(n)),
    "quarantines": Topic(
        "Q",
        lambda tx, page: tx.quarantines.list(page),
        quarantine_view,
        lambda tx, n: _exactly(tx.quarantines.list(_at(n)), n, f"quarantine Q-{n}"),
    ),
    "messages": Topic("M", lambda tx, page: tx.deliveries.list(page), message_view, lambda tx, n: tx.deliveries.get(n)),
    "journal": Topic(
        "N",
        lambda tx, page: tx.journal.list(page),
        views.journal,
        lambda tx, n: _exactly(tx.journal.list(_at(n)), n, f"journal entry N-{n}"),
    ),
}


class Lists:
    """Lists and single records, for whoever may view."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, caller: Caller, topic: str, page: Page) -> dict[str, JsonValue]:
        """`{"items": [...], "next": cursor|null}`.  Raises Forbidden, Misconfigured (bad limit), StoreUnavailable."""
        require(caller, Role.VIEWER)
        kind = TOPICS[topic]
        if not 1 <= page.limit <= LIMIT_MAX:
            raise Misconfigured(f"limit {page.limit} is out of range", hint=f"1 to {LIMIT_MAX}")
        rows = self._store.read(lambda tx: kind.rows(tx, page))
        more = rows[-1].seq if len(rows) == page.limit else None
        return {"items": [kind.show(one) for one in rows], "next": more}

    def show(self, caller: Caller, topic: str, name: str) -> views.Item:
        """One record by its printed id.  Raises Forbidden, Misconfigured (no such form), NotFound."""
        require(caller, Role.VIEWER)
        kind = TOPICS[topic]
        seq = parse_id(kind.prefix, name)
        one = self._store.read(lambda tx: kind.one(tx, seq))
        item = kind.show(one)
        if topic == "decisions":
            item["rule_text"] = self._store.read(lambda tx: rule_text(tx, one))
        if topic == "executions":
            rows, captured = self._store.read(lambda tx: (tx.executions.of_action(seq), tx.captures.of_action(seq)))
            item["history"] = [views.execution(one) for one in rows]
            item["captured"] = None if captured is None else capture_view(captured)
        return item
