"""Freezes, overrides, tokens, the journal, reports and facts."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Conflict, Misconfigured, NotFound, Refused
from fleetwarden.ports.stores import FeedMark, Page


@pytest.mark.req("POL-12")
def test_a_freeze_stands_until_it_is_lifted(store):
    first, second = store.transact(
        "freeze", lambda tx: (tx.freezes.add(owner="ann", reason="lunch"), tx.freezes.add(owner="bob", reason="audit"))
    )
    assert store.read(lambda tx: tx.freezes.active()) == [first, second]
    lifted = store.transact("lift", lambda tx: tx.freezes.lift(first.seq, "eve"))
    assert (lifted.lifted_by, lifted.owner, lifted.scope) == ("eve", "ann", "all")
    assert lifted.lifted_at is not None
    assert store.read(lambda tx: tx.freezes.active()) == [second]
    assert store.read(lambda tx: tx.freezes.list(Page())) == [second, lifted]


@pytest.mark.req("POL-12")
def test_a_freeze_is_lifted_once(store):
    freeze = store.transact("freeze", lambda tx: tx.freezes.add(owner="ann", reason=""))
    store.transact("lift", lambda tx: tx.freezes.lift(freeze.seq, "bob"))
    with pytest.raises(Conflict, match="bob"):
        store.transact("again", lambda tx: tx.freezes.lift(freeze.seq, "eve"))
    with pytest.raises(NotFound, match="F-99"):
        store.transact("nowhere", lambda tx: tx.freezes.lift(99, "eve"))


@pytest.mark.req("POL-12")
def test_a_freeze_ends_by_itself_at_its_end(store, database):
    def run(tx):
        tx.freezes.add(owner="ann", reason="", until=tx.now() + 1_000)
        return tx.freezes.add(owner="ann", reason="", until=tx.now() + 3_600_000_000)

    longer = store.transact("freeze", run)
    database.lapse()
    assert store.read(lambda tx: tx.freezes.active()) == [longer]


@pytest.mark.req("POL-12")
def test_the_end_of_a_freeze_is_told_once_and_never_of_one_that_stands_or_was_lifted(store, database):
    def run(tx):
        ends = tx.freezes.add(owner="ann", reason="", until=tx.now() + 1_000, scope="group", value="web")
        lifted = tx.freezes.add(owner="ann", reason="", until=tx.now() + 1_000)
        tx.freezes.lift(lifted.seq, "bob")
        return ends, lifted, tx.freezes.add(owner="ann", reason="")

    ends, lifted, stands = store.transact("freeze", run)
    assert (ends.scope, ends.value) == ("group", "web")
    database.lapse()
    assert [one.seq for one in store.read(lambda tx: tx.freezes.ended())] == [ends.seq]
    told = store.transact("tell", lambda tx: tx.freezes.told(ends.seq))
    assert told.told_at is not None
    assert store.read(lambda tx: tx.freezes.ended()) == []
    for one in (ends, lifted, stands):
        with pytest.raises(Conflict):
            store.transact("again", lambda tx, one=one: tx.freezes.told(one.seq))


@pytest.mark.req("POL-12")
def test_a_freeze_survives_a_restart(store, database):
    freeze = store.transact("freeze", lambda tx: tx.freezes.add(owner="ann", reason="lunch"))
    store.close()
    assert database.open().read(lambda tx: tx.freezes.active()) == [freeze]


def test_a_filter_that_a_list_does_not_have_is_refused_and_not_ignored(store):
    for ask in (
        lambda tx: tx.freezes.list(Page(target="web")),
        lambda tx: tx.journal.list(Page(state="open")),
        lambda tx: tx.reports.list(Page(target="web")),
    ):
        with pytest.raises(Misconfigured, match="cannot be filtered"):
            store.read(ask)


@pytest.mark.req("POL-4")
def test_an_override_is_written_replaced_and_deleted(store):
    rule = {"kind": "restart_service", "target": "web-*", "tier": "auto"}
    store.transact("put", lambda tx: tx.overrides.put("b", rule, active=True, by="ann"))
    off = store.transact("put", lambda tx: tx.overrides.put("b", {**rule, "tier": "forbidden"}, active=False, by="bob"))
    other = store.transact("put", lambda tx: tx.overrides.put("a", rule, active=True, by="ann"))
    assert store.read(lambda tx: tx.overrides.all()) == [other, off]
    assert (off.rule["tier"], off.active, off.written_by) == ("forbidden", False, "bob")
    store.transact("delete", lambda tx: tx.overrides.delete("b"))
    assert store.read(lambda tx: tx.overrides.all()) == [other]
    with pytest.raises(NotFound, match="'b'"):
        store.transact("delete", lambda tx: tx.overrides.delete("b"))


def token(tx, name="admin", digest="d1", **changed):
    values = {"name": name, "secret_digest": digest, "roles": ("admin", "viewer"), "person": "ann"}
    return tx.tokens.add(**{**values, **changed})


@pytest.mark.req("RUN-3")
def test_a_token_is_found_by_the_digest_of_its_secret(store):
    added = store.transact("add", token)
    assert store.read(lambda tx: tx.tokens.by_digest("d1")) == added
    assert (added.name, added.roles, added.person, added.revoked_at) == ("admin", ("admin", "viewer"), "ann", None)
    assert store.read(lambda tx: tx.tokens.by_digest("d2")) is None


@pytest.mark.req("RUN-3")
def test_a_revoked_token_is_no_longer_found_and_gives_its_name_up(store):
    store.transact("add", token)
    revoked = store.transact("revoke", lambda tx: tx.tokens.revoke("admin"))
    assert revoked.revoked_at is not None
    assert store.read(lambda tx: tx.tokens.by_digest("d1")) is None
    fresh = store.transact("add", lambda tx: token(tx, digest="d2"))
    assert store.read(lambda tx: tx.tokens.all()) == [revoked, fresh]
    store.transact("revoke", lambda tx: tx.tokens.revoke("admin"))
    with pytest.raises(NotFound, match="admin"):
        store.transact("revoke", lambda tx: tx.tokens.revoke("admin"))


@pytest.mark.req("RUN-3")
def test_two_live_tokens_never_share_a_name_or_a_secret(store):
    store.transact("add", token)

    def run(tx):
        with pytest.raises(Conflict, match="admin"):
            token(tx, digest="d2")
        with pytest.raises(Conflict):
            token(tx, name="other")
        return token(tx, name="other", digest="d2")

    assert store.transact("add", run).name == "other"


@pytest.mark.req("RUN-3")
def test_an_expired_token_is_not_found_and_gives_its_name_up(store, database):
    old = store.transact("add", lambda tx: token(tx, expires_at=tx.now() + 1_000))
    database.lapse()
    assert store.read(lambda tx: tx.tokens.by_digest("d1")) is None
    fresh = store.transact("add", lambda tx: token(tx, digest="d2"))
    assert store.read(lambda tx: tx.tokens.all()) == [old, fresh]
    assert store.transact("revoke", lambda tx: tx.tokens.revoke("admin")).seq == fresh.seq


def test_the_journal_keeps_who_said_what_about_whom(store):
    def run(tx):
        tx.journal.write(topic="freeze", actor="ann", subject="fleet", summary="frozen", detail={"for_s": 60})
        return tx.journal.write(topic="notice", actor="plane", subject="web", severity="error", summary="down")

    second = store.transact("write", run)
    newest, oldest = store.read(lambda tx: tx.journal.list(Page()))
    assert newest == second
    assert (oldest.topic, oldest.actor, oldest.subject, oldest.severity) == ("freeze", "ann", "fleet", "info")
    assert (oldest.summary, oldest.detail) == ("frozen", {"for_s": 60})
    assert store.read(lambda tx: tx.journal.list(Page(kind="notice"))) == [second]
    assert store.read(lambda tx: tx.journal.list(Page(target="fleet"))) == [oldest]


def test_the_journal_is_read_on_from_an_entry(store):
    def run(tx):
        return [tx.journal.write(topic=topic, actor="p", summary=topic).seq for topic in ("notice", "token") * 3]

    seqs = store.transact("write", run)
    [first] = store.read(lambda tx: tx.journal.after(FeedMark(), topic="notice", limit=1))
    assert first.seq == seqs[0]
    after = store.read(lambda tx: tx.journal.after(first.mark, topic="notice", limit=10))
    assert [one.seq for one in after] == [seqs[2], seqs[4]]
    assert store.read(lambda tx: tx.journal.after(after[-1].mark, topic="notice", limit=10)) == []


def test_a_report_is_kept_whole(store):
    body = {"services": [{"name": f"s{number}", "why": "as declared"} for number in range(200)]}
    report = store.transact("append", lambda tx: tx.reports.append("reconciler", body))
    assert store.read(lambda tx: tx.reports.get(report.seq)).body == body
    assert store.read(lambda tx: tx.reports.list(Page(kind="reconciler"))) == [report]
    with pytest.raises(NotFound, match="R-99"):
        store.read(lambda tx: tx.reports.get(99))


def test_a_fact_is_the_last_value_that_was_put(store):
    assert store.read(lambda tx: tx.facts.get("fleet id")) is None
    store.transact("put", lambda tx: tx.facts.put("fleet id", "f1"))
    store.transact("put", lambda tx: tx.facts.put("fleet id", {"id": "f2"}))
    assert store.read(lambda tx: tx.facts.get("fleet id")) == {"id": "f2"}
    with pytest.raises(Refused, match="store's own"):
        store.transact("put", lambda tx: tx.facts.put("store.newest_time", 0))
