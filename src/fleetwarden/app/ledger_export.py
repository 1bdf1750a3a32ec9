"""The whole ledger as items for a verifier, page by page, each page one short read transaction.

No snapshot is held: an export may take as long as it takes, and nothing waits for it.  It goes as far as the newest
seal at its beginning; what was not sealed then is named as the tail.  A page says where the next one goes on, so
whoever reads needs no memory here.  It adds nothing and leaves nothing out, whatever state the rows are in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.rule_texts import kept_text
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import JsonValue, plain
from fleetwarden.domain.sealing import FORMAT
from fleetwarden.ports.ledger import CheckpointLog, KeptText, LedgerItem
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CURSOR", "LedgerExport"]

PAGE = 100  # rows
SCAN = 5_000  # rows that one page looks through for some that were never entered
KINDS = ("decisions", "executions", "journal", "approvals", "votes", "ledger_events")
PHASES = ("sealed", "tail", *(f"stray-{kind}" for kind in KINDS), "state", "text", "checkpoint")
_NUMBER = "[0-9]{1,18}"
_NUMBERED = "|".join(phase for phase in PHASES if phase != "text")
CURSOR = f"^(?:(?:{_NUMBERED}):{_NUMBER}:{_NUMBER}:{_NUMBER}|text:{_NUMBER}:{_NUMBER}:[0-9a-f]{{0,64}})$"
_CURSOR = re.compile(CURSOR)


class _Place(Record):
    """Where an export stands: its phase, the last sealed position when it began, items so far, and the last of them."""

    phase: str
    sealed_to: int
    items: int
    after: str = "0"

    def shown(self) -> str:
        return f"{self.phase}:{self.sealed_to}:{self.items}:{self.after}"


def _read(cursor: str) -> _Place:
    if not _CURSOR.fullmatch(cursor):
        raise Misconfigured(f"{cursor[:80]!r} is no cursor", hint="pass on what 'next' of the page before said")
    phase, sealed_to, items, after = cursor.split(":")
    return _Place(phase=phase, sealed_to=int(sealed_to), items=int(items), after=after)


class _Page(Record):
    items: Sequence[LedgerItem]
    after: str | None  # None: the phase is over


class LedgerExport:
    """Pages of the export, for whoever may view."""

    def __init__(self, store: Store, checkpoints: CheckpointLog | None) -> None:
        self._store = store
        self._checkpoints = checkpoints

    def page(self, caller: Caller, cursor: str | None) -> dict[str, JsonValue]:
        """`{"items": [...], "next": cursor|null}`.  Raises Forbidden, Misconfigured (cursor), StoreUnavailable."""
        require(caller, Role.VIEWER)
        if cursor is None:
            return self._store.read(_begin)
        at = _read(cursor)
        page = self._store.read(lambda tx: self._of_phase(tx, at))
        place = _following(at, page)
        if place is not None:
            return {"items": page.items, "next": place.shown()}
        last = {"type": "end", "items": at.items + len(page.items) + 1}
        return {"items": [*page.items, last], "next": None}

    def text(self, caller: Caller, digest: str) -> dict[str, JsonValue]:
        """A text of the configuration by its digest.  Raises Forbidden (a registry, no administrator), NotFound."""
        return kept_text(self._store, caller, digest)

    def _of_phase(self, tx: Tx, at: _Place) -> _Page:
        if at.phase == "text":
            return _texts(tx, at.after)
        after = int(at.after)
        if at.phase == "sealed":
            return _sealed(tx, after, at.sealed_to)
        if at.phase == "tail":
            rows = tx.ledger.tail(at.sealed_to, after, PAGE)
            told = [{"type": "tail", **_without_entry(one)} for one in rows]
            return _Page(items=told, after=str(rows[-1]["entry"]) if rows else None)
        if at.phase == "state":
            rows = tx.ledger.states(after, PAGE)
            more = str(rows[-1]["approval"]) if len(rows) == PAGE else None
            return _Page(items=[{"type": "state", **one} for one in rows], after=more)
        if at.phase == "checkpoint":
            return self._signed(after)
        kind = at.phase.removeprefix("stray-")
        lost, following = tx.ledger.strays(kind, after, SCAN)
        told = [{"type": "stray", "kind": kind, "ref": seq} for seq in lost]
        return _Page(items=told, after=None if following is None else str(following))

    def _signed(self, after: int) -> _Page:
        every = [] if self._checkpoints is None else self._checkpoints.all()
        some = every[after : after + PAGE]
        told = [{"type": "checkpoint", **plain(one)} for one in some]
        return _Page(items=told, after=str(after + PAGE) if after + PAGE < len(every) else None)


def _begin(tx: Tx) -> dict[str, JsonValue]:
    tip, fleet = tx.ledger.tip(), tx.facts.get("fleet_id")
    header = {"type": "header", "format": FORMAT, "fleet": fleet, "at": tx.now()}
    place = _Place(phase=PHASES[0], sealed_to=0 if tip is None else tip.last, items=1)
    return {"items": [header], "next": place.shown()}


def _following(at: _Place, page: _Page) -> _Place | None:
    """Where the export goes on; None: it is over."""
    items = at.items + len(page.items)
    if page.after is not None:
        return _Place(phase=at.phase, sealed_to=at.sealed_to, items=items, after=page.after)
    later = PHASES[PHASES.index(at.phase) + 1 :]
    if not later:
        return None
    return _Place(phase=later[0], sealed_to=at.sealed_to, items=items, after="" if later[0] == "text" else "0")


def _sealed(tx: Tx, after: int, sealed_to: int) -> _Page:
    """Entries in order, each seal behind the last entry that it covers.  A hole in the positions is stepped over."""
    first = tx.ledger.next_position(after)
    upto = sealed_to if first is None or first > sealed_to else min(first + PAGE - 1, sealed_to)
    seals = list(tx.ledger.seals(after, upto))
    told: list[LedgerItem] = []
    for entry in tx.ledger.entries(after, upto):
        while seals and seals[0].last < entry["position"]:
            told.append({"type": "seal", **plain(seals.pop(0))})
        told.append({"type": "entry", **_without_entry(entry)})
    told += [{"type": "seal", **plain(one)} for one in seals]
    return _Page(items=told, after=str(upto) if upto < sealed_to else None)


def _texts(tx: Tx, after: str) -> _Page:
    rows = tx.texts.after(f"sha256:{after}", 1)  # one may be large
    told = [{"type": "text", **_shown(one)} for one in rows]
    return _Page(items=told, after=rows[-1].digest.removeprefix("sha256:") if rows else None)


def _shown(one: KeptText) -> LedgerItem:
    """A registry may hold secrets of services: an export names it by its digest and leaves the text out."""
    told = plain(one)
    return told if one.kind == "policy" else {**told, "body": None}


def _without_entry(item: LedgerItem) -> LedgerItem:
    return {key: value for key, value in item.items() if key != "entry"}
