"""The ledger of decisions: every verdict that policy gave, and the budgets counted from it.

A row is written once and never changed, but for the links to the approval and the action it led to.  Budgets are
queries over these rows and the outbox and nothing else, so they hold across processes and restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.actions import ActionDecision, ActionRequest, Verdict
from fleetwarden.domain.budgets import Use
from fleetwarden.domain.errors import Conflict, NotFound, Refused
from fleetwarden.domain.identifiers import Micros, show_id
from fleetwarden.ports.stores import DecisionDraft, Page
from fleetwarden.store import columns, ledger, schema
from fleetwarden.store.columns import document, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredDecisions"]

_D, _O = schema.decisions, schema.outbox
_ALL = sa.select(*_D.c)
_NEWEST_FIRST = _D.c.seq.desc()

_INSERT = Statement(write(_D).returning(_D.c.seq))
_INSERT_NUMBERED = Statement(write(_D, given=_D.c.keys()))
_GET = Statement(_ALL.where(_D.c.seq == param("seq")))
_BY_KEY = Statement(_ALL.where(_D.c.key == param("key", str)).order_by(_D.c.seq).limit(1))
_LATEST_WHERE = _ALL.where(_D.c.target == param("target", str), _D.c.kind == param("kind", str))
_LATEST = Statement(_LATEST_WHERE.order_by(_NEWEST_FIRST).limit(1))
_LATEST_OF_SOURCE = Statement(_LATEST_WHERE.where(_D.c.source == param("source", str)).order_by(_NEWEST_FIRST).limit(1))
_LISTING = Listing(_D, at="at", target="target", kind="kind", state="verdict")


def _latest_by_target() -> Statement:
    target, newest = each_of("targets"), _D.alias("newest")
    seq = sa.select(newest.c.seq).where(newest.c.target == target.c.value).order_by(newest.c.seq.desc()).limit(1)
    return Statement(sa.select(*_D.c).select_from(target.join(_D, _D.c.seq == seq.scalar_subquery())))


def _link(column: str) -> Statement:
    free = sa.or_(_D.c[column].is_(None), _D.c[column] == param("link"))
    return Statement(
        sa.update(_D).values({column: param("link")}).where(_D.c.seq == param("of"), free).returning(_D.c.seq)
    )


def _uses(*, of_target: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Both kinds of uses after `since`: allowed decisions at their own time, executed grants at commit 1."""
    abandoned = sa.exists().where(_O.c.decision_seq == _D.c.seq, _O.c.state == sa.literal_column("'abandoned'"))
    live = sa.exists().where(_O.c.decision_seq == _D.c.seq, _O.c.state != sa.literal_column("'abandoned'"))
    allowed = sa.select(_D.c.seq.label("decision_seq"), _D.c.target, _D.c.at).where(
        _D.c.kind == param("kind", str),
        _D.c.dry_run == param("dry_run"),
        _D.c.at > param("since"),
        one_of(_D.c.verdict, "allow", "allow_notify"),
        _D.c.approval_seq.is_(None),
        sa.or_(sa.not_(abandoned), live),
    )
    granted = sa.select(_O.c.decision_seq, _O.c.target, _O.c.started_at.label("at")).where(
        _O.c.kind == param("kind", str),
        _O.c.dry_run == param("dry_run"),
        _O.c.started_at > param("since"),
        _O.c.approval_seq.is_not(None),
    )
    if of_target:
        allowed = allowed.where(_D.c.target == param("target", str)).order_by(_D.c.at.desc(), _D.c.seq.desc())
        allowed = allowed.limit(param("limit"))
        granted = granted.where(_O.c.target == param("target", str))
        granted = granted.order_by(_O.c.started_at.desc(), _O.c.decision_seq.desc()).limit(param("limit"))
    return allowed, granted


def _uses_of_target() -> Statement:
    allowed, granted = (part.subquery() for part in _uses(of_target=True))
    both = sa.union_all(sa.select(*allowed.c), sa.select(*granted.c)).subquery("uses")
    newest = both.c.at.desc(), both.c.decision_seq.desc()
    return Statement(sa.select(*both.c).order_by(*newest).limit(param("limit")))


def _newest_use_of_each_target() -> Statement:
    both = sa.union_all(*_uses(of_target=False)).subquery("uses")
    newest = both.c.at.desc(), both.c.decision_seq.desc()
    rank = sa.func.row_number().over(partition_by=both.c.target, order_by=newest).label("rank")
    ranked = sa.select(*both.c, rank).subquery("ranked")
    return Statement(
        sa.select(ranked.c.decision_seq, ranked.c.target, ranked.c.at)
        .where(ranked.c.rank == sa.literal_column("1"))
        .order_by(ranked.c.at.desc(), ranked.c.decision_seq.desc())
    )


def _uses_of_each_target() -> Statement:
    target = each_of("targets")
    parts = (part.subquery() for part in _uses(of_target=False))
    some = [sa.select(*part.c).where(part.c.target.in_(sa.select(target.c.value))) for part in parts]
    both = sa.union_all(*some).subquery("uses")
    newest = both.c.at.desc(), both.c.decision_seq.desc()
    rank = sa.func.row_number().over(partition_by=both.c.target, order_by=newest).label("rank")
    ranked = sa.select(*both.c, rank).subquery("ranked")
    return Statement(
        sa.select(ranked.c.decision_seq, ranked.c.target, ranked.c.at)
        .where(ranked.c.rank <= param("limit"))
        .order_by(ranked.c.target, ranked.c.rank)
    )


_LATEST_BY_TARGET = _latest_by_target()
_LINK_APPROVAL = _link("approval_seq")
_LINK_ACTION = _link("action_seq")
_USES = _uses_of_target()
_USES_OF_EACH = _uses_of_each_target()
_TARGETS = _newest_use_of_each_target()
_REQUEST = msgspec.json.Decoder(ActionRequest)
_WAIVES = msgspec.json.Decoder(tuple[str, ...])


@columns.reading("decision")
def _decision(row: Row) -> ActionDecision:
    (seq, at, _kind, _target, _source, _key, _dry_run, request, request_digest, verdict, code, reason, rule, *rest) = (
        row
    )
    rule_source, policy_digest, numbers, waives, approval_seq, action_seq = rest
    return ActionDecision(
        seq=seq,
        at=at,
        request=_REQUEST.decode(request),
        request_digest=request_digest,
        verdict=Verdict(verdict),
        code=code,
        reason=reason,
        rule=rule,
        rule_source=rule_source,
        policy_digest=policy_digest,
        numbers=columns.plain_json(numbers),
        waives=_WAIVES.decode(waives),
        approval_seq=approval_seq,
        action_seq=action_seq,
    )


def _values(draft: DecisionDraft, at: Micros) -> dict[str, Any]:
    """The columns of a new row but for its number."""
    request = draft.request
    return {
        "at": at,
        "kind": text("decision.kind", request.kind),
        "target": text("decision.target", request.target),
        "source": text("decision.source", request.source),
        "key": text("decision.key", request.key),
        "dry_run": int(request.dry_run),
        "request": document("decision.request", request),
        "request_digest": request.digest(),
        "verdict": draft.verdict.value,
        "code": text("decision.code", draft.code),
        "reason": text("decision.reason", draft.reason),
        "rule": text("decision.rule", draft.rule),
        "rule_source": text("decision.rule_source", draft.rule_source),
        "policy_digest": text("decision.policy_digest", draft.policy_digest),
        "numbers": document("decision.numbers", draft.numbers),
        "waives": document("decision.waives", draft.waives),
        "approval_seq": draft.approval_seq,
        "action_seq": None,
    }


def _made(seq: int, draft: DecisionDraft, values: Mapping[str, Any]) -> ActionDecision:
    return ActionDecision(
        seq=seq,
        at=values["at"],
        request=draft.request,
        request_digest=values["request_digest"],
        verdict=draft.verdict,
        code=draft.code,
        reason=draft.reason,
        rule=draft.rule,
        rule_source=draft.rule_source,
        policy_digest=draft.policy_digest,
        numbers=draft.numbers,
        waives=draft.waives,
        approval_seq=draft.approval_seq,
    )


class StoredDecisions:
    """Implements `ports.stores.Decisions`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, draft: DecisionDraft) -> ActionDecision:
        values = _values(draft, self._session.now())
        [(seq,)] = self._session.change(_INSERT, **values)
        ledger.enter(self._session, "decisions", {"seq": seq, **values})
        return _made(seq, draft, values)

    def append_many(self, drafts: Sequence[DecisionDraft]) -> Sequence[ActionDecision]:
        session, now = self._session, self._session.now()
        values = [_values(draft, now) for draft in drafts]
        rows = [
            {"seq": seq, **one} for seq, one in zip(session.take_numbers(_D.name, len(drafts)), values, strict=True)
        ]
        session.change_many(_INSERT_NUMBERED, rows)
        for row in rows:
            ledger.enter(session, "decisions", row)
        return [_made(row["seq"], draft, row) for row, draft in zip(rows, drafts, strict=True)]

    def link(self, seq: int, *, approval_seq: int | None = None, action_seq: int | None = None) -> None:
        if approval_seq is None and action_seq is None:
            raise Refused(f"decision {show_id('D', seq)} is to be linked to nothing")
        for statement, link in ((_LINK_APPROVAL, approval_seq), (_LINK_ACTION, action_seq)):
            if link is not None and not self._session.change(statement, of=seq, link=link):
                raise Conflict(f"decision {self.get(seq).id} has that link already, to something else")

    def get(self, seq: int) -> ActionDecision:
        row = self._session.row(_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no decision {show_id('D', seq)}")
        return _decision(row)

    def by_key(self, key: str) -> ActionDecision | None:
        row = self._session.row(_BY_KEY, key=key)
        return None if row is None else _decision(row)

    def latest(self, kind: str, target: str, source: str | None = None) -> ActionDecision | None:
        if source is None:
            row = self._session.row(_LATEST, kind=kind, target=target)
        else:
            row = self._session.row(_LATEST_OF_SOURCE, kind=kind, target=target, source=source)
        return None if row is None else _decision(row)

    def latest_by_target(self, targets: Sequence[str]) -> Mapping[str, ActionDecision]:
        rows = self._session.rows(_LATEST_BY_TARGET, targets=self._session.array(targets))
        found = map(_decision, rows)
        return {decision.request.target: decision for decision in found}

    def uses(self, kind: str, target: str, since: Micros, *, dry_run: bool, limit: int) -> Sequence[Use]:
        rows = self._session.rows(_USES, kind=kind, target=target, since=since, dry_run=int(dry_run), limit=limit)
        return [Use(decision_seq=seq, target=of, at=at) for seq, of, at in rows]

    def uses_of_each(
        self, kind: str, targets: Sequence[str], since: Micros, *, dry_run: bool, limit: int
    ) -> Mapping[str, Sequence[Use]]:
        wanted = self._session.array(targets)
        rows = self._session.rows(
            _USES_OF_EACH, kind=kind, targets=wanted, since=since, dry_run=int(dry_run), limit=limit
        )
        found: dict[str, list[Use]] = {}
        for seq, of, at in rows:
            found.setdefault(of, []).append(Use(decision_seq=seq, target=of, at=at))
        return found

    def targets(self, kind: str, since: Micros, *, dry_run: bool) -> Sequence[Use]:
        rows = self._session.rows(_TARGETS, kind=kind, since=since, dry_run=int(dry_run))
        return [Use(decision_seq=seq, target=of, at=at) for seq, of, at in rows]

    def list(self, page: Page) -> Sequence[ActionDecision]:
        statement, values = _LISTING.ask(page)
        return [_decision(row) for row in self._session.rows(statement, **values)]
