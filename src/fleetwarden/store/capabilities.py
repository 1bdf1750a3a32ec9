"""Does this store really keep its promises?  Asked of every store at start, ours or injected.

Everything rests on three of them: a transaction that is rolled back leaves nothing behind, a compare-and-swap lets
exactly one through, and the outbox holds one open record per target.  A store that cannot do this is refused; nothing
in the product falls back to reading first and writing later.
"""

from __future__ import annotations

from typing import Any

from fleetwarden.domain.actions import ActionRequest, LeaseFence, OutboxRecord, Verdict
from fleetwarden.domain.errors import FleetError, IllegalMove, Misconfigured, TargetBusy
from fleetwarden.ports.stores import DecisionDraft, OutboxDraft, Store, Tx

__all__ = ["require_capabilities"]

_CALLS = ("transact", "read", "health", "close")
_PARTS = {
    "decisions": ("append", "uses", "targets"),
    "executions": ("append", "rebuild"),
    "outbox": ("prepare", "start", "finish", "abandon", "open_of"),
    "approvals": ("file", "vote", "move"),
    "work": ("enqueue", "claim", "complete"),
    "leases": ("acquire", "check", "release"),
    "freezes": ("add", "active"),
}
_NAME = "fleetwarden-capability-check"
_HINT = "the store has to offer real transactions, compare-and-swap and an outbox: see ports/stores.py"


class _RolledBack(Exception):
    """Raised to have the rehearsal rolled back."""


def require_capabilities(store: object) -> Store:
    """Return the store if it keeps its promises; raises Misconfigured naming the one that it does not keep.

    Rehearses an action in a transaction that is rolled back, and looks whether anything stayed.  Passes on
    StoreUnavailable, which says nothing about what the store can do.
    """
    lacking = [name for name in _CALLS if not callable(getattr(store, name, None))]
    if lacking:
        raise Misconfigured(f"{type(store).__name__} is no store: it lacks {', '.join(lacking)}", hint=_HINT)
    asked: Any = store
    try:
        asked.transact("capability check", _rehearse)
    except _RolledBack:
        pass
    except FleetError:
        raise
    except Exception as error:
        raise Misconfigured(
            f"{type(store).__name__} cannot carry out a transaction: {type(error).__name__}: {error}", hint=_HINT
        ) from error
    else:
        raise Misconfigured(f"{type(store).__name__} swallows what a transaction's function raises", hint=_HINT)
    if asked.read(lambda tx: tx.outbox.by_key(_NAME)) is not None:
        raise Misconfigured(f"{type(store).__name__} keeps what a transaction that failed has written", hint=_HINT)
    result: Store = asked
    return result


def _rehearse(tx: Tx) -> None:
    """Prepare an action, fence it, and try what must be refused."""
    lacking = [
        f"{part}.{call}"
        for part, calls in _PARTS.items()
        for call in calls
        if not callable(getattr(getattr(tx, part, None), call, None))
    ]
    if lacking:
        raise Misconfigured(f"the store's transactions lack {', '.join(lacking)}", hint=_HINT)
    decision = _decide(tx)
    first = _prepare(tx, decision, _NAME)
    try:
        _prepare(tx, decision, f"{_NAME}-2")
    except TargetBusy:
        pass
    else:
        raise Misconfigured("the store lets two records of one target be open", hint=_HINT)
    _start(tx, first)
    try:
        _start(tx, first)
    except IllegalMove:
        raise _RolledBack from None
    raise Misconfigured("the store lets an action be fenced twice: it has no compare-and-swap", hint=_HINT)


def _request(key: str) -> ActionRequest:
    return ActionRequest(kind="noop", target=_NAME, source="plane", requested_by="plane", key=key, dry_run=True)


def _decide(tx: Tx) -> int:
    return tx.decisions.append(
        DecisionDraft(
            request=_request(_NAME),
            verdict=Verdict.DENY,
            code="rehearsal",
            reason="rolled back",
            rule="",
            rule_source="",
            policy_digest="",
        )
    ).seq


def _prepare(tx: Tx, decision_seq: int, key: str) -> OutboxRecord:
    return tx.outbox.prepare(
        OutboxDraft(request=_request(key), decision_seq=decision_seq, policy_digest="", expires_at=tx.now() + 1)
    )


def _start(tx: Tx, record: OutboxRecord) -> None:
    tx.outbox.start(
        record.seq,
        fence=LeaseFence(cadence=_NAME, shard="", holder=_NAME, token=1),
        horizon_at=tx.now(),
        final_if_acknowledged=True,
        negatives_by_person=False,
        request=record.request,
    )
