"""Watches: one row each, changed while it runs and never after its end.

Most looks say what the look before said.  Those are counted for many watches in one statement; only a look that says
something new, and the end, write a row of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from fleetwarden.domain.deploy_watch import DeployWatch, OnFail, Probe, WatchStatus
from fleetwarden.domain.errors import Conflict, NotFound
from fleetwarden.domain.identifiers import show_id
from fleetwarden.ports.pages import Page
from fleetwarden.ports.watches import Tally, WatchDraft
from fleetwarden.store import columns, schema_watches
from fleetwarden.store.columns import document, prose, text
from fleetwarden.store.session import Session
from fleetwarden.store.statements import Listing, Row, Statement, each_of, param, write

__all__ = ["StoredWatches"]

_W = schema_watches.deploy_watches
_RUNS = _W.c.status == sa.literal_column("'running'")

_INSERT = Statement(write(_W).on_conflict_do_nothing().returning(*_W.c))
_GET = Statement(sa.select(*_W.c).where(_W.c.seq == param("seq")))
_OF_ACTION = Statement(
    sa.select(*_W.c).where(_W.c.action_seq.is_not(None), _W.c.action_seq == param("action_seq")).limit(1)
)
_THESE = Statement(sa.select(*_W.c).where(_W.c.seq.in_(sa.select(sa.cast(each_of("seqs").c.value, sa.BigInteger())))))
_RUNNING = Statement(sa.select(*_W.c).where(_W.c.service == param("service", str), _RUNS))
_TALLY = Statement(
    sa.update(_W)
    .values(
        made=_W.c.made + sa.literal_column("1"),
        usable=_W.c.usable + param("more_usable"),
        healthy=_W.c.healthy + param("more_healthy"),
        last_at=param("now"),
    )
    .where(_W.c.seq.in_(sa.select(sa.cast(each_of("seqs").c.value, sa.BigInteger()))), _RUNS)
)
_CHANGED = (
    ("version", str),
    ("definition", str),
    ("grace_until", int),
    ("deadline", int),
    ("poll", int),
    ("made", int),
    ("usable", int),
    ("healthy", int),
    ("last_at", int),
    ("probes", str),
    ("judged", str),
    ("status", str),
    ("proven", int),
    ("reason", str),
    ("ended_at", int),
    ("replaced_by", int),
    ("follow_up", str),
)
_CHANGE = Statement(
    sa.update(_W)
    .values({name: param(f"to_{name}", kind) for name, kind in _CHANGED})
    .where(_W.c.seq == param("of"), _RUNS)
    .returning(_W.c.seq)
)
_REPLACED = Statement(
    sa.update(_W)
    .values(replaced_by=param("by"))
    .where(
        _W.c.seq == param("of"),
        _W.c.status == sa.literal_column("'replaced'"),
        _W.c.replaced_by.is_(None),
    )
    .returning(_W.c.seq)
)
_FOLLOWED = Statement(
    sa.update(_W)
    .values(follow_up=param("what", str))
    .where(_W.c.seq == param("of"), _W.c.follow_up == sa.literal_column("'pending'"))
    .returning(_W.c.seq)
)
_FOLLOW_AGAIN = Statement(
    sa.update(_W)
    .values(follow_up=sa.literal_column("'pending'"))
    .where(_W.c.seq == param("of"), _W.c.status == sa.literal_column("'failed'"))
    .returning(_W.c.seq)
)
_OF_VERSIONS = Statement(
    sa.select(*_W.c)
    .where(
        _W.c.service == param("service", str),
        sa.literal_column("(proven = 1 OR (changes_version = 1 AND status = 'failed'))"),
    )
    .order_by(_W.c.seq.desc())
    .limit(param("limit"))
)
_NEWEST_CHANGE = Statement(
    sa.select(*_W.c)
    .where(_W.c.service == param("service", str), sa.literal_column("changes_version = 1"))
    .order_by(_W.c.seq.desc())
    .limit(1)
)
_COUNT = Statement(sa.select(sa.func.count()).where(_W.c.status == param("status", str)))
_LISTING = Listing(_W, at="started", target="service", kind="kind", state="status")
_PROBES = msgspec.json.Decoder(tuple[Probe, ...])
_NAMES = msgspec.json.Decoder(tuple[str, ...])
_NO_PROBES: tuple[Probe, ...] = ()


@columns.reading("watch")
def _watch(row: Row) -> DeployWatch:
    (seq, service, action_seq, kind, source, version, from_version, from_replicas, definition, replica, *rest) = row
    changes, on_fail, status, started, settled, grace_until, deadline, poll, made, usable, healthy, *more = rest
    last_at, probes, judged, proven, reason, ended_at, replaced_by, follow_up = more
    return DeployWatch(
        seq=seq,
        service=service,
        action_seq=action_seq,
        kind=kind,
        source=source,
        version=version,
        from_version=from_version,
        from_replicas=from_replicas,
        definition=definition,
        replica=replica,
        changes_version=bool(changes),
        on_fail=OnFail(on_fail),
        status=WatchStatus(status),
        started=started,
        settled=settled,
        grace_until=grace_until,
        deadline=deadline,
        poll=poll,
        made=made,
        usable=usable,
        healthy=healthy,
        last_at=last_at,
        probes=_PROBES.decode(probes) if probes != "[]" else _NO_PROBES,
        judged=_NAMES.decode(judged) if judged != "[]" else (),
        proven=bool(proven),
        reason=reason,
        ended_at=ended_at,
        replaced_by=replaced_by,
        follow_up=follow_up,
    )


class StoredWatches:
    """Implements `ports.watches.Watches`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, draft: WatchDraft) -> DeployWatch:
        now = self._session.now()
        found = self._session.change(
            _INSERT,
            service=text("watch.service", draft.service),
            action_seq=draft.action_seq,
            kind=text("watch.kind", draft.kind),
            source=text("watch.source", draft.source),
            version=text("watch.version", draft.version),
            from_version=text("watch.from_version", draft.from_version),
            from_replicas=draft.from_replicas,
            definition=text("watch.definition", draft.definition),
            replica=text("watch.replica", draft.replica),
            changes_version=int(draft.changes_version),
            on_fail=draft.on_fail.value,
            status=WatchStatus.RUNNING.value,
            started=now,
            settled=now,
            grace_until=draft.grace_until,
            deadline=draft.deadline,
            poll=draft.poll,
            made=0,
            usable=0,
            healthy=0,
            last_at=None,
            probes="[]",
            judged="[]",
            proven=0,
            reason="",
            ended_at=None,
            replaced_by=None,
            follow_up="",
        )
        if not found:
            raise Conflict(f"a watch of {draft.service} runs already, or watches that action", hint="replace it first")
        return _watch(found[0])

    def get(self, seq: int) -> DeployWatch:
        row = self._session.row(_GET, seq=seq)
        if row is None:
            raise NotFound(f"there is no watch {show_id('V', seq)}")
        return _watch(row)

    def of_action(self, action_seq: int) -> DeployWatch | None:
        row = self._session.row(_OF_ACTION, action_seq=action_seq)
        return None if row is None else _watch(row)

    def these(self, seqs: Sequence[int]) -> Mapping[int, DeployWatch]:
        if not seqs:
            return {}
        rows = self._session.rows(_THESE, seqs=self._session.array([str(one) for one in seqs]))
        return {one.seq: one for one in map(_watch, rows)}

    def running(self, service: str) -> DeployWatch | None:
        row = self._session.row(_RUNNING, service=service)
        return None if row is None else _watch(row)

    def tally(self, tally: Tally) -> None:
        if tally.seqs:
            self._session.change(
                _TALLY,
                seqs=self._session.array([str(one) for one in tally.seqs]),
                more_usable=int(tally.usable),
                more_healthy=int(tally.healthy),
                now=self._session.now(),
            )

    def change(self, watch: DeployWatch) -> None:
        ended = watch.status is not WatchStatus.RUNNING
        values = {
            "version": text("watch.version", watch.version),
            "definition": text("watch.definition", watch.definition),
            "grace_until": watch.grace_until,
            "deadline": watch.deadline,
            "poll": watch.poll,
            "made": watch.made,
            "usable": watch.usable,
            "healthy": watch.healthy,
            "last_at": watch.last_at,
            "probes": document("watch.probes", watch.probes),
            "judged": document("watch.judged", watch.judged),
            "status": watch.status.value,
            "proven": int(watch.proven),
            "reason": prose("watch.reason", watch.reason),
            "ended_at": self._session.now() if ended else None,
            "replaced_by": watch.replaced_by,
            "follow_up": prose("watch.follow_up", watch.follow_up),
        }
        if not self._session.change(_CHANGE, of=watch.seq, **{f"to_{name}": value for name, value in values.items()}):
            raise Conflict(f"watch {watch.id} does not run any more", hint="drop it: it has ended")

    def replaced(self, seq: int, by: int) -> None:
        if not self._session.change(_REPLACED, of=seq, by=by):
            raise Conflict(f"watch {show_id('V', seq)} was not replaced, or something took its place already")

    def followed(self, seq: int, what: str) -> None:
        if not self._session.change(_FOLLOWED, of=seq, what=prose("watch.follow_up", what)):
            raise Conflict(f"nothing is to follow watch {show_id('V', seq)} any more", hint="drop it")

    def follow_again(self, seq: int) -> None:
        if not self._session.change(_FOLLOW_AGAIN, of=seq):
            raise Conflict(f"watch {show_id('V', seq)} has not failed: nothing follows it", hint="drop it")

    def of_versions(self, service: str, limit: int) -> Sequence[DeployWatch]:
        return [_watch(row) for row in self._session.rows(_OF_VERSIONS, service=service, limit=limit)]

    def newest_change(self, service: str) -> DeployWatch | None:
        row = self._session.row(_NEWEST_CHANGE, service=service)
        return None if row is None else _watch(row)

    def list(self, page: Page) -> Sequence[DeployWatch]:
        statement, values = _LISTING.ask(page)
        return [_watch(row) for row in self._session.rows(statement, **values)]

    def count(self, status: WatchStatus) -> int:
        [(found,)] = self._session.rows(_COUNT, status=status.value)
        return int(found)
