"""The queries of rules and passes use an index, whatever the ledger grows to."""

from __future__ import annotations

import json
import re

import pytest

from fleetwarden.domain.events import Phase
from fleetwarden.domain.lifecycles import ApprovalState, OutboxState
from fleetwarden.domain.shadow import ShadowRun
from fleetwarden.ports.stores import FeedMark, Page
from fleetwarden.ports.watches import Tally
from fleetwarden.testing import FakeIds
from tests.contract.store.records import carried_out, decide, request
from tests.contract.store.test_executions import draft
from tests.unit.events.test_correlation import an_event

AN_EVENT = an_event(starts_at=1)
THE_END = an_event(Phase.RESOLVED, starts_at=1, ends_at=2)
A_RUN = ShadowRun(service="api", at=1, current=1, desired=1, raw=1, reason="")
QUERIES = {
    "uses": lambda tx: tx.decisions.uses("restart_service", "web", 5, dry_run=False, limit=3),
    "targets": lambda tx: tx.decisions.targets("restart_service", 5, dry_run=False),
    "uses of each": lambda tx: tx.decisions.uses_of_each("restart_service", ["web"], 5, dry_run=False, limit=3),
    "decision by key": lambda tx: tx.decisions.by_key("k"),
    "latest decision": lambda tx: tx.decisions.latest("restart_service", "web"),
    "latest decision of a source": lambda tx: tx.decisions.latest("restart_service", "web", "reconciler"),
    "latest decisions": lambda tx: tx.decisions.latest_by_target(["web", "db"]),
    "open_of": lambda tx: tx.outbox.open_of("web"),
    "in_state": lambda tx: tx.outbox.in_state(OutboxState.PREPARED, OutboxState.RUNNING),
    "record by key": lambda tx: tx.outbox.by_key("k"),
    "record by approval": lambda tx: tx.outbox.by_approval(1),
    "last_called": lambda tx: tx.outbox.last_called("web"),
    "latest execution": lambda tx: tx.executions.latest_of_target("web"),
    "latest executions": lambda tx: tx.executions.latest_by_target(["web", "db"]),
    "failing": lambda tx: tx.executions.failing(["web", "db"], 5),
    "executions of an action": lambda tx: tx.executions.of_action(1),
    "rebuild": lambda tx: tx.executions.rebuild(5),
    "open approvals": lambda tx: tx.approvals.open_of("web", "restart_service"),
    "approvals in_state": lambda tx: tx.approvals.in_state(ApprovalState.PENDING),
    "approvals count": lambda tx: tx.approvals.count(ApprovalState.PENDING),
    "claim": lambda tx: tx.work.claim("plane", ["watch"], 5, 3),
    "what people rejected": lambda tx: tx.approvals.rejected(["web", "db"], 5),
    "next_due": lambda tx: tx.work.next_due(),
    "next due of kinds": lambda tx: tx.work.next_due(["a", "b"]),
    "depth": lambda tx: tx.work.depth(),
    "lease": lambda tx: tx.leases.acquire("tick", "0", "plane", 5),
    "freezes": lambda tx: tx.freezes.active(),
    "token": lambda tx: tx.tokens.by_digest("d"),
    "seal due": lambda tx: tx.ledger.due(),
    "seal": lambda tx: tx.ledger.seal(3),
    "seals": lambda tx: tx.ledger.seals(3, 9),
    "next position": lambda tx: tx.ledger.next_position(3),
    "entries": lambda tx: tx.ledger.entries(3, 9),
    "tail": lambda tx: tx.ledger.tail(3, 5, 9),
    "states": lambda tx: tx.ledger.states(3, 9),
    "strays": lambda tx: tx.ledger.strays("journal", 3, 9),
    "shadow runs": lambda tx: tx.shadows.of("web", since=5, after=3),
    "open shadow runs": lambda tx: tx.shadows.open(),
    "a shadow run's end": lambda tx: tx.shadows.end("web", 5),
    "next shadow run": lambda tx: tx.shadows.begin(A_RUN),
    "old shadow runs": lambda tx: (tx.shadows.oldest(), tx.shadows.prune(5)),
    "events": lambda tx: tx.events.put([AN_EVENT, THE_END]),
    "outages": lambda tx: tx.events.down_events("web", 5),
    "outages counted": lambda tx: tx.events.outages("web", 5),
    "alerts": lambda tx: tx.events.alerts(["web", "db"]),
    "flaps": lambda tx: tx.events.flaps(["web", "db"], 5),
    "old events": lambda tx: (tx.events.oldest(), tx.events.prune(5)),
    "events of a service": lambda tx: tx.events.list(Page(target="web")),
    "recent messages": lambda tx: tx.deliveries.recent("oncall", 5),
    "open messages": lambda tx: (tx.deliveries.open("oncall"), tx.deliveries.open_targets()),
    "hastened messages": lambda tx: tx.deliveries.hasten("oncall", 5),
    "old messages": lambda tx: tx.deliveries.prune(5),
    "watches by number": lambda tx: tx.watches.these([1, 2]),
    "a running watch": lambda tx: tx.watches.running("web"),
    "watch of an action": lambda tx: tx.watches.of_action(1),
    "watches of versions": lambda tx: tx.watches.of_versions("web", 5),
    "newest change of version": lambda tx: tx.watches.newest_change("web"),
    "tally": lambda tx: tx.watches.tally(Tally(seqs=(1, 2), usable=True, healthy=True)),
    "next steps": lambda tx: tx.work.again_each({1: 2}, not_before=5),
    "notices": lambda tx: tx.journal.after(FeedMark(seq=5), topic="notice", limit=3),
}
OPEN = (
    "work_items_due",
    "ledger_open",
    "shadow_runs_open",
    "shadow_runs_ended",
    "deliveries_open",
    "deliveries_ended",
)  # indexes of what is open or old
LARGE = {
    "decisions",
    "outbox",
    "executions",
    "approvals",
    "work_items",
    "deploy_watches",
    "journal",
    "ledger",
    "ledger_events",
    "votes",
    "shadow_runs",
    "events",
    "alerts",
    "deliveries",
    "seals",
}


def asked(store, query):
    """The statements that a query runs, with their values."""
    found = []

    def run(tx):
        real = tx._session._run

        def spy(statement, values):
            found.append((statement, dict(values)))
            return real(statement, values)

        tx._session._run = spy
        query(tx)

    store.transact("spy", run)
    return found


@pytest.mark.req("POL-6")
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_on_sqlite_no_large_table_is_scanned(sqlite, query):
    store = sqlite.open()
    for statement, values in asked(store, query):
        sql = statement.sqlite
        plan = store._connection.execute(f"EXPLAIN QUERY PLAN {sql.text}", sql.values(values)).fetchall()
        steps = [detail for *_, detail in plan]
        scans = [step for step in steps if re.match(r"SCAN (\w+)", step) and not step.startswith("SCAN CONSTANT")]
        full = [step for step in scans if step.split()[1] in LARGE and "USING" not in step]
        assert full == [], steps
        # The walks that are no search: along an index that holds nothing but what is open.
        along = [step for step in scans if step.split()[1] in LARGE]
        assert all(any(one in step for one in OPEN) for step in along), steps


@pytest.mark.req("POL-6")
@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_on_postgresql_no_large_table_is_scanned(server, query):
    """With sequential scans made expensive, one that remains is one that no index can replace."""
    store = server.open()
    found = asked(store, query)

    def explain(tx):
        session = tx._session
        session._ask(b"SET LOCAL enable_seqscan = off")
        for statement, values in found:
            sql = statement.postgresql
            [(plan,)] = session._ask(b"EXPLAIN (FORMAT JSON) " + sql.text.encode(), sql.values(values))
            plan = plan if isinstance(plan, list) else json.loads(plan)
            scanned = {node["Relation Name"] for node in nodes(plan[0]["Plan"]) if node["Node Type"] == "Seq Scan"}
            assert not scanned & LARGE, plan

    store.transact("explain", explain)


def nodes(plan):
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.req("POL-6")
def test_a_budget_query_reads_the_window_and_not_the_ledger(sqlite):
    """Counted in SQLite's own steps: a ledger ten times as long costs no more."""
    store = sqlite.open()

    def steps():
        count = 0

        def tick():
            nonlocal count
            count += 1
            return 0

        def run(tx):
            store._connection.set_progress_handler(tick, 10)
            tx.decisions.uses("restart_service", "web", tx.now() - 1_000, dry_run=False, limit=3)
            tx.decisions.targets("restart_service", tx.now() - 1_000, dry_run=False)
            tx.decisions.uses_of_each("restart_service", ["web"], tx.now() - 1_000, dry_run=False, limit=3)
            tx.outbox.open_of("web")
            store._connection.set_progress_handler(None, 0)

        store.transact("budget", run)
        return count

    def grow(many):
        store.transact("grow", lambda tx: [decide(tx, request()) for _ in range(many)])
        sqlite.clock.advance(3600)

    grow(100)
    small = steps()
    grow(2_000)
    assert steps() <= small * 1.5 + 5


@pytest.mark.req("AUT-16", "POL-6")
def test_looking_for_a_lost_execution_reads_its_span_and_not_all_that_was_ever_done(sqlite):
    """Every admission does so.  Counted as above."""
    store = sqlite.open()

    def act(many):
        def run(tx):
            for _ in range(many):
                tx.executions.append(draft(carried_out(tx, request(key=ids.new()))))

        store.transact("act", run)
        sqlite.clock.advance(3600)

    def steps():
        ticks = []

        def run(tx):
            store._connection.set_progress_handler(lambda: ticks.append(0), 10)
            assert tx.executions.rebuild(tx.now() - 1_000) == 0
            store._connection.set_progress_handler(None, 0)

        store.transact("rebuild", run)
        return len(ticks)

    ids = FakeIds("q")
    act(20)
    small = steps()
    act(400)
    assert steps() <= small * 1.5 + 5
