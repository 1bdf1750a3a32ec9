"""From the journal to people: the real passes over both databases, with targets that take, refuse or hang."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleetwarden.controllers.delivering import CLAIM, Delivering
from fleetwarden.controllers.messenger import Messenger
from fleetwarden.controllers.spreading import Spreading
from fleetwarden.domain.errors import Fenced, Retryable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.messages import ATTEMPTS_MAX, WINDOW
from fleetwarden.domain.notify_file import NotifyDocument, Route, Target
from fleetwarden.ports.notices import Message
from fleetwarden.ports.stores import Page, Store
from tests.contract.store.conftest import Database, database, sqlite, store

__all__ = ["database", "sqlite", "store"]  # the fixtures

SECRET = "CANARY" + "7" * 10


class Source:
    """What is in force, set by a test."""

    unreadable = False

    def __init__(self, *routes: Route) -> None:
        names = {name for one in routes for name in one.to}
        targets = {name: Target(name=name, url=f"json://user:{SECRET}@h/{name}") for name in names}
        self.document = NotifyDocument(targets=targets, routes=routes)

    def current(self) -> NotifyDocument:
        return self.document


class Channel:
    """Takes what it is given, unless told otherwise."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Message]] = []
        self.before: Callable[[str], None] = lambda _: None

    def send(self, target: Target, message: Message) -> None:
        self.before(target.name)
        self.got.append((target.name, message))

    def of(self, name: str) -> list[str]:
        return [one.title for target, one in self.got if target == name]


class World:
    """One plane's passes; `groups` says which service is of which group."""

    def __init__(self, store: Store, *routes: Route, groups: dict[str, str] | None = None) -> None:
        self.store, self.source, self.channel = store, Source(*routes), Channel()
        self.spreading = Spreading(store, self.source, lambda name: (groups or {}).get(name, ""))
        self.delivering = Delivering(store, self.source, self.channel, lambda job: job(), sender="h1")

    def tell(self, *summaries: str, severity: str = "error", subject: str = "web", **detail: str) -> None:
        def run(tx):
            for one in summaries:
                tx.journal.write(
                    topic="notice", actor="gate", subject=subject, severity=severity, summary=one, detail=detail
                )

        self.store.transact("tell", run)

    def step(self) -> None:
        self.spreading.run()
        self.delivering.run()

    def states(self) -> list[str]:
        return [one.state.value for one in self.store.read(lambda tx: tx.deliveries.list(Page(limit=500)))][::-1]


def fail(_: str) -> None:
    raise Retryable(f"refused: token={SECRET}")


@pytest.mark.req("PLB-5")
def test_each_notice_reaches_every_target_of_every_route_that_matches(store: Store) -> None:
    world = World(
        store,
        Route(to=("oncall",), group="shop", severity=("critical",)),
        Route(to=("chat",), severity=("critical",)),
        groups={"web": "shop"},
    )
    world.tell("web is down", severity="critical")
    world.tell("api is down", severity="critical", subject="api")
    world.tell("a storm", severity="critical", subject="", group="shop")
    world.tell("only a warning", severity="warning")
    world.step()
    assert world.channel.of("oncall") == ["[critical] web is down", "[critical] a storm"]
    assert len(world.channel.of("chat")) == 3
    assert set(world.states()) == {"delivered"}
    world.step()
    assert len(world.channel.got) == 5  # nothing is told twice


@pytest.mark.req("PLB-5")
def test_what_is_not_critical_waits_for_more_of_its_kind(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("chat",)))
    world.tell("web: first", "web: second")
    world.step()
    assert world.channel.got == []
    sqlite.clock.advance(WINDOW / SECOND + 1)
    world.step()
    [(_, message)] = world.channel.got
    assert message.title == "[error] web: first (and 1 more)"
    assert "web: second" in message.body


@pytest.mark.req("PLB-5")
def test_a_target_that_fails_is_tried_later_and_holds_up_nobody_else(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("bad", "good")))
    world.channel.before = lambda name: fail(name) if name == "bad" else None
    world.tell("one", severity="critical", subject="a")
    world.tell("two", severity="critical", subject="b")
    world.step()
    assert world.channel.of("good") == ["[critical] a: one", "[critical] b: two"]
    rows = world.store.read(lambda tx: tx.deliveries.open("bad"))
    assert [(one.attempts, one.state) for one in rows] == [(1, "waiting"), (0, "waiting")]  # in order: two waits
    assert (SECRET in rows[0].error, rows[0].error) == (False, "refused: token=***")
    world.channel.before = lambda _: None
    world.step()
    assert world.channel.of("bad") == []
    sqlite.clock.advance(6)
    world.step()
    assert world.channel.of("bad") == ["[critical] a: one", "[critical] b: two"]


@pytest.mark.req("PLB-5")
def test_a_new_critical_notice_tries_a_failing_target_at_once(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("bad",)))
    world.channel.before = fail
    world.tell("one", severity="critical", subject="a")
    for _ in range(6):
        world.step()
        sqlite.clock.advance(40)
    world.channel.before = lambda _: None
    world.tell("two", severity="critical", subject="b")
    world.step()
    assert world.channel.of("bad") == ["[critical] a: one", "[critical] b: two"]


@pytest.mark.req("PLB-5")
def test_a_message_is_given_up_in_the_end_and_the_journal_says_so(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("bad",)))
    world.channel.before = fail
    world.tell("one", severity="critical")
    for _ in range(ATTEMPTS_MAX + 3):
        world.step()
        sqlite.clock.advance(301)
    assert world.states() == ["dead"]
    [entry] = world.store.read(lambda tx: tx.journal.list(Page(kind="notification")))
    assert "was given up: failed 20 times" in entry.summary
    assert SECRET not in entry.summary
    world.step()
    assert world.states() == ["dead"]  # giving up is not told through what was given up


@pytest.mark.req("PLB-5", "AUT-5")
def test_a_plane_that_died_while_it_sent_leaves_the_message_to_the_next_one(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("oncall",)))

    class Killed(BaseException):
        pass

    def die(_: str) -> None:
        raise Killed

    world.channel.before = die
    world.tell("one", severity="critical")
    with pytest.raises(Killed):
        world.step()
    again = World(world.store, Route(to=("oncall",)))
    again.step()
    assert again.channel.got == []  # it may still be on its way
    sqlite.clock.advance(CLAIM / SECOND + 1)
    again.step()
    assert again.channel.of("oncall") == ["[critical] web: one"]


@pytest.mark.req("PLB-5", "AUT-16")
def test_a_plane_that_lost_its_lease_neither_spreads_nor_sends(store: Store) -> None:
    world = World(store, Route(to=("oncall",)))
    old = store.transact("lease", lambda tx: tx.leases.acquire("messages", "0", "p1", 1))
    assert old is not None
    store.transact("end", lambda tx: tx.leases.release(old))
    new = store.transact("lease", lambda tx: tx.leases.acquire("messages", "0", "p2", 60 * SECOND))
    world.tell("one", severity="critical")
    with pytest.raises(Fenced):
        world.spreading.run(old)
    world.spreading.run(new)
    world.delivering.run(old)
    assert world.channel.got == []
    world.delivering.run(new)
    assert world.channel.of("oncall") == ["[critical] web: one"]


@pytest.mark.req("PLB-5", "POL-15")
def test_thousands_of_notices_are_a_bounded_number_of_messages(sqlite: Database) -> None:
    world = World(sqlite.open(), Route(to=("oncall", "chat")))

    def storm(tx):
        for number in range(2_000):
            severity = "critical" if number % 2 else "error"
            tx.journal.write(topic="notice", actor="g", subject=f"s{number}", severity=severity, summary="is down")

    world.store.transact("storm", storm)
    for _ in range(3):
        world.step()
        sqlite.clock.advance(WINDOW / SECOND + 1)
    assert len(world.channel.of("oncall")) == len(world.channel.of("chat")) == 42
    rows = world.store.read(lambda tx: tx.deliveries.list(Page(target="oncall", limit=500)))
    assert sum(one.count for one in rows) == 2_000


@pytest.mark.req("PLB-5")
def test_what_was_told_before_there_were_messages_is_not_told_again(store: Store) -> None:
    class Told:
        name = "told"

        def notify(self, _: object) -> bool:
            return True

    world = World(store, Route(to=("oncall",)))
    world.tell("old news", severity="critical")
    Messenger(store, Told()).run()
    world.tell("news", severity="critical")
    world.step()
    assert world.channel.of("oncall") == ["[critical] web: news"]


@pytest.mark.req("PLB-5")
def test_notices_wait_while_nobody_knows_who_is_told_and_a_target_that_is_gone_is_given_up(store: Store) -> None:
    world = World(store, Route(to=("oncall",)))
    world.source.unreadable = True
    world.tell("news", severity="critical")
    world.step()
    assert world.states() == []
    world.source.unreadable = False
    world.spreading.run()
    world.source.document = NotifyDocument()
    world.delivering.run()
    assert (world.states(), world.channel.got) == (["dead"], [])
