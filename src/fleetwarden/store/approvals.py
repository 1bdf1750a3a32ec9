"""Requests to people, and their answers.

The store itself keeps what must not depend on who calls it: one pending row per kind and target, one vote per person,
no vote and no grant after the expiry, no grant with fewer votes than are needed, and no end but `closed` for an
approval whose action is under way (its record is running or its outcome unknown): that action decides how it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.actions import ActionApproval, ActionRequest, Needed, Vote
from fleetwarden.domain.approvers import vote_problem
from fleetwarden.domain.errors import Conflict, IllegalMove, NotFound, Refused
from fleetwarden.domain.identifiers import Micros, rfc3339, show_id
from fleetwarden.domain.lifecycles import APPROVAL, OPEN_APPROVALS, ApprovalState
from fleetwarden.ports.stores import ApprovalDraft, Page
from fleetwarden.store import columns, ledger, schema
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, one_of, param, write

__all__ = ["StoredApprovals"]

_A, _O, _V = schema.approvals, schema.outbox, schema.votes
_ALL = sa.select(*_A.c)
_OPEN = one_of(_A.c.status, *OPEN_APPROVALS)

_INSERT = Statement(write(_A).on_conflict_do_nothing().returning(_A.c.seq))
_GET = Statement(_ALL.where(_A.c.seq == param("seq")))
_GET_LOCKED = Statement(_ALL.where(_A.c.seq == param("seq")).with_for_update())
_OPEN_OF_TARGET = _ALL.where(_A.c.target == param("target", str), _OPEN).order_by(_A.c.seq)
_OPEN_OF = Statement(_OPEN_OF_TARGET)
_OPEN_OF_KIND = Statement(_OPEN_OF_TARGET.where(_A.c.kind == param("kind", str)))
_IN_STATE = Statement(_ALL.where(_A.c.status.in_(sa.select(each_of("states").c.value))).order_by(_A.c.seq))
_REJECTED_OF = Statement(
    _ALL.where(
        _A.c.target.in_(sa.select(each_of("targets").c.value)),
        _A.c.status == sa.literal_column("'rejected'"),
        _A.c.ended_at >= param("since"),
    ).order_by(_A.c.seq)
)
_COUNT = Statement(sa.select(sa.func.count()).select_from(_A).where(_A.c.status == param("status", str)))
_VOTE = Statement(
    sa.update(_A)
    .values(votes=param("votes", str))
    .where(_A.c.seq == param("of"), _A.c.status == sa.literal_column("'pending'"))
    .returning(*_A.c)
)
_MOVE = Statement(
    sa.update(_A)
    .values(
        status=param("to", str),
        note=param("note", str),
        ended_at=param("ended_at"),
        superseded_by=param("superseded_by"),
    )
    .where(_A.c.seq == param("of"), _A.c.status == param("came_from", str))
    .returning(*_A.c)
)
_UNDER_WAY = Statement(
    sa.select(_O.c.seq, _O.c.state)
    .where(_O.c.approval_seq == param("approval_seq"), one_of(_O.c.state, "running", "recovery_pending"))
    .limit(1)
)
_CAST = Statement(write(_V).on_conflict_do_nothing().returning(_V.c.seq))
_IN_FAVOUR = Statement(
    sa.select(_V.c.teams).where(
        _V.c.approval_seq == param("approval_seq"), _V.c.decision == sa.literal_column("'approved'")
    )
)
_REPLACED = Statement(
    sa.update(_A)
    .values(superseded_by=param("by"))
    .where(_A.c.seq == param("of"), _A.c.status == sa.literal_column("'superseded'"), _A.c.superseded_by.is_(None))
    .returning(*_A.c)
)
_WARNED = Statement(
    sa.update(_A)
    .values(warned_at=param("now"))
    .where(_A.c.seq == param("of"), _A.c.status == sa.literal_column("'pending'"))
    .returning(*_A.c)
)
_LISTING = Listing(_A, at="created_at", target="target", kind="kind", state="status")

_REQUEST = msgspec.json.Decoder(ActionRequest)
_NEEDED = msgspec.json.Decoder(Needed)
_VOTES = msgspec.json.Decoder(tuple[Vote, ...])
_NAMES = msgspec.json.Decoder(tuple[str, ...])


@columns.reading("approval")
def _approval(row: Row) -> ActionApproval:
    (seq, status, _kind, _target, request, digest, decision_seq, reason, waives, created_at, expires_at, *rest) = row
    needed, votes, note, ended_at, superseded_by, warned_at = rest
    return ActionApproval(
        seq=seq,
        status=ApprovalState(status),
        request=_REQUEST.decode(request),
        digest=digest,
        decision_seq=decision_seq,
        reason=reason,
        waives=_NAMES.decode(waives),
        created_at=created_at,
        expires_at=expires_at,
        needed=_NEEDED.decode(needed),
        votes=_VOTES.decode(votes),
        note=note,
        ended_at=ended_at,
        superseded_by=superseded_by,
        warned_at=warned_at,
    )


class StoredApprovals:
    """Implements `ports.stores.Approvals`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def file(self, draft: ApprovalDraft) -> ActionApproval:
        request = draft.request
        values = {
            "status": ApprovalState.PENDING.value,
            "kind": text("approval.kind", request.kind),
            "target": text("approval.target", request.target),
            "request": document("approval.request", request),
            "digest": text("approval.digest", draft.digest),
            "decision_seq": draft.decision_seq,
            "reason": text("approval.reason", draft.reason),
            "waives": document("approval.waives", draft.waives),
            "created_at": self._session.now(),
            "expires_at": draft.expires_at,
            "needed": document("approval.needed", draft.needed),
            "votes": "[]",
            "note": "",
            "ended_at": None,
            "superseded_by": None,
            "warned_at": None,
        }
        written = self._session.change(_INSERT, **values)
        if not written:
            raise Conflict(
                f"an approval of {request.kind} {request.target} is pending already",
                code="approval_pending",
                hint="answer or supersede that one",
            )
        [(seq,)] = written
        ledger.enter(self._session, "approvals", {"seq": seq, **values})
        return self.get(seq)

    def get(self, seq: int) -> ActionApproval:
        row = self._session.row(_GET_LOCKED if self._session.writable else _GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no approval {show_id('A', seq)}")
        return _approval(row)

    def open_of(self, target: str, kind: str | None = None) -> Sequence[ActionApproval]:
        if kind is None:
            rows = self._session.rows(_OPEN_OF, target=target)
        else:
            rows = self._session.rows(_OPEN_OF_KIND, target=target, kind=kind)
        return [_approval(row) for row in rows]

    def rejected(self, targets: Sequence[str], since: Micros) -> Sequence[ActionApproval]:
        rows = self._session.rows(_REJECTED_OF, targets=self._session.array(sorted(targets)), since=since)
        return [_approval(row) for row in rows]

    def in_state(self, *states: ApprovalState) -> Sequence[ActionApproval]:
        ended = [state.value for state in states if state not in OPEN_APPROVALS]
        if ended:
            raise Refused(f"in_state is for open approvals, not {', '.join(ended)}", hint="page through list")
        return [_approval(row) for row in self._session.rows(_IN_STATE, states=self._session.array(states))]

    def vote(self, seq: int, vote: Vote) -> ActionApproval:
        """As the port says; besides, the vote is dated by the store, and none is taken at or after the expiry."""
        approval = self.get(seq)
        if approval.status is not ApprovalState.PENDING:
            raise Conflict(f"{approval.id} is {approval.status.value}: it takes no more votes", code="already_decided")
        self._refuse_if_expired(approval)
        if vote.decision == "approved" and (problem := vote_problem(approval.needed, vote.teams)) is not None:
            raise Refused(f"{vote.by} cannot approve {approval.id}: {problem}", code="not_an_approver")
        values = {
            "approval_seq": seq,
            "person": text("vote.by", vote.by),
            "decision": text("vote.decision", vote.decision),
            "reason": text("vote.reason", vote.reason),
            "teams": document("vote.teams", vote.teams),
            "at": self._session.now(),
        }
        written = self._session.change(_CAST, **values)
        if not written:
            raise Conflict(f"{vote.by} has voted on {approval.id} already", code="already_voted")
        ledger.enter(self._session, "votes", {"seq": written[0][0], **values})
        votes = (*approval.votes, msgspec.structs.replace(vote, at=self._session.now()))
        rows = self._session.change(_VOTE, of=seq, votes=document("approval.votes", votes))
        return _approval(self._moved(rows, approval))

    def move(
        self,
        seq: int,
        *,
        came_from: ApprovalState,
        to: ApprovalState,
        note: str = "",
        superseded_by: int | None = None,
    ) -> ActionApproval:
        approval = self.get(seq)
        if approval.status is not came_from:
            raise IllegalMove(
                f"{approval.id} is {approval.status.value}, not {came_from.value}: it cannot become {to.value}"
            )
        APPROVAL.advance(came_from, to)
        if to is ApprovalState.GRANTED:
            self._refuse_if_expired(approval)
            self._refuse_without_quorum(approval)
        elif to is not ApprovalState.CLOSED:
            self._refuse_if_under_way(approval, to)
        rows = self._session.change(
            _MOVE,
            of=seq,
            came_from=came_from.value,
            to=to.value,
            note=prose("approval.note", note),
            ended_at=None if to is ApprovalState.GRANTED else self._session.now(),
            superseded_by=superseded_by,
        )
        return self._entered(self._moved(rows, approval))

    def replaced(self, seq: int, by: int) -> ActionApproval:
        rows = self._session.change(_REPLACED, of=seq, by=by)
        if not rows:
            raise IllegalMove(f"{show_id('A', seq)} is not superseded, or by another already")
        return self._entered(rows[0])

    def warned(self, seq: int) -> ActionApproval:
        rows = self._session.change(_WARNED, of=seq, now=self._session.now())
        if not rows:
            raise IllegalMove(f"{show_id('A', seq)} is no longer pending")
        return _approval(rows[0])

    def list(self, page: Page) -> Sequence[ActionApproval]:
        statement, values = _LISTING.ask(page)
        return [_approval(row) for row in self._session.rows(statement, **values)]

    def count(self, status: ApprovalState) -> int:
        [(number,)] = self._session.rows(_COUNT, status=status.value)
        return int(number)

    def _entered(self, row: Row) -> ActionApproval:
        """The approval after a move, which is entered into the ledger as an event: the row itself may move again."""
        moved = _approval(row)
        event = {
            "status": moved.status.value,
            "note": moved.note,
            "ended_at": moved.ended_at,
            "superseded_by": moved.superseded_by,
        }
        ledger.enter_event(self._session, "approval", moved.seq, event)
        return moved

    @staticmethod
    def _moved(rows: Sequence[Row], approval: ActionApproval) -> Row:
        if not rows:
            raise IllegalMove(f"{approval.id} moved while it was being moved")
        return rows[0]

    def _refuse_if_expired(self, approval: ActionApproval) -> None:
        if self._session.now() >= approval.expires_at:
            raise Conflict(
                f"{approval.id} expired at {rfc3339(approval.expires_at)}",
                code="approval_expired",
                hint="let the action be proposed again",
            )

    def _refuse_without_quorum(self, approval: ActionApproval) -> None:
        """Counted from the table of votes, where a person has one row: the copy on the approval is for reading."""
        cast = [_NAMES.decode(teams) for (teams,) in self._session.rows(_IN_FAVOUR, approval_seq=approval.seq)]
        in_favour = sum(vote_problem(approval.needed, teams) is None for teams in cast)
        if in_favour < approval.needed.count:
            raise Conflict(
                f"{approval.id} has {in_favour} of the {approval.needed.count} approving votes that it needs",
                code="quorum_missing",
            )

    def _refuse_if_under_way(self, approval: ActionApproval, to: ApprovalState) -> None:
        """Whoever starts the record locks the approval first, so with our lock on it we see every start there is."""
        row = self._session.row(_UNDER_WAY, approval_seq=approval.seq)
        if row is not None:
            action, state = row
            raise Conflict(
                f"{approval.id} cannot become {to.value}: its action {show_id('X', action)} is {state}",
                code="approval_in_use",
                hint="it closes when that action has ended",
            )
