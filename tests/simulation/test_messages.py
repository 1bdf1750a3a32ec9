"""Seeded histories of messages: two planes that lead by turns and die at any step, targets and a store that fail.

Beside the large histories, because nothing of it touches a service.  The auditor reads the journal and what targets
took, and nothing of the product's own tables.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest

from fleetwarden.controllers import delivering, spreading
from fleetwarden.controllers.delivering import Delivering
from fleetwarden.controllers.spreading import Spreading
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.errors import FleetError, Retryable, StoreUnavailable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.notify_file import NotifyDocument, Route, Target
from fleetwarden.ports.notices import Message
from fleetwarden.ports.stores import Page, Store, StoreHealth, Tx
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock

T = TypeVar("T")
HISTORIES = 4
STEPS = 60
STORM = 80
CRITICAL_BOUND_S = 40.0


class Killed(BaseException):
    """A plane dies where it stands."""


class Weather:
    """What goes wrong, by seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calm = False

    def chance(self, share: float) -> bool:
        return not self.calm and self.random.random() < share


class FaultyStore:
    """Fails before, dies after, or loses the answer of, some transactions."""

    def __init__(self, store: Store, weather: Weather) -> None:
        self._store, self._weather = store, weather

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        if self._weather.chance(0.03):
            raise StoreUnavailable("the store fails")
        value = self._store.transact(name, fn)
        if self._weather.chance(0.04):
            raise Killed
        return value

    def read(self, fn: Callable[[Tx], T]) -> T:
        return self._store.read(fn)

    def health(self) -> StoreHealth:
        return self._store.health()

    def close(self) -> None:
        """Its owner closes it."""


class Source:
    unreadable = False

    def current(self) -> NotifyDocument:
        targets = {name: Target(name=name, url="x1://y") for name in ("good", "bad")}
        return NotifyDocument(targets=targets, routes=(Route(to=("good", "bad")),))


class History:
    """One history; `took`: when each target took a message, and the message."""

    def __init__(self, seed: int, folder: Any) -> None:
        self.weather, self.clock = Weather(seed), FakeClock()
        self.engine = open_store(f"sqlite:///{folder}/messages-{seed}.db", self.clock)
        engine: Any = self.engine
        engine._connection.execute("PRAGMA synchronous=OFF")  # no power fails here
        self.took: dict[str, list[tuple[int, Message]]] = {"good": [], "bad": []}
        self.written = 0
        self.alone = 0  # notices before the storm

    def send(self, target: Target, message: Message) -> None:
        if self.weather.chance(0.05):
            raise Killed  # before it went out
        if target.name == "bad" and self.weather.chance(0.6):
            raise Retryable("not now")
        self.took[target.name].append((self.clock.now(), message))
        if self.weather.chance(0.05):
            raise Killed  # it went out, and nobody wrote it down

    def plane(self, name: str) -> Callable[[], None]:
        store: Any = FaultyStore(self.engine, self.weather)
        spread = Spreading(store, Source(), lambda _: "")
        deliver = Delivering(store, Source(), self, lambda job: job(), sender=name)

        def one_pass() -> None:
            fence = self.lease(name)
            if fence is not None:
                spread.run(fence)
                deliver.run(fence)

        return one_pass

    def lease(self, name: str) -> LeaseFence | None:
        return self.engine.transact("lease", lambda tx: tx.leases.acquire("messages", "0", name, 3 * SECOND))

    def tell(self, count: int) -> None:
        def write(tx: Tx) -> None:
            for _ in range(count):
                severity = self.weather.random.choice(("critical", "error", "info"))
                subject = self.weather.random.choice("abc") if count == 1 else f"s{self.written}"
                text = f"<{self.written}>"
                tx.journal.write(topic="notice", actor="gate", subject=subject, severity=severity, summary=text)
                self.written += 1

        self.engine.transact("tell", write)

    def run(self) -> list[str]:
        """What the auditor found."""
        planes = {name: self.plane(name) for name in ("p1", "p2")}
        for step in range(STEPS):
            if step == STEPS // 2:
                self.alone = self.written
                self.tell(STORM)
            elif self.weather.chance(0.3):
                self.tell(1)
            for name, one_pass in list(planes.items()):
                try:
                    one_pass()
                except Killed:
                    planes[name] = self.plane(name)
                except FleetError:
                    pass
            self.clock.advance(self.weather.random.choice((0.5, 1, 2)))
        self.weather.calm = True
        for _ in range(60):  # long enough for every claim, window and back-off to be over
            for one_pass in planes.values():
                one_pass()
            self.clock.advance(30)
        return self.audit()

    def audit(self) -> list[str]:
        entries = self.engine.read(lambda tx: tx.journal.list(Page(kind="notice", limit=500)))
        known = {one.summary: one for one in entries}
        found = []
        for target, took in self.took.items():
            said: Counter[str] = Counter()
            numbers: dict[str, tuple[int, int]] = {}
            for at, message in took:
                words = [line.split("  ")[1] for line in message.body.splitlines() if "Z  <" in line]
                said.update(words)
                found += [f"{target} was told {word}, which nobody wrote" for word in words if word not in known]
                rest = [line for line in message.body.splitlines() if line.startswith("and ")]
                more = int(rest[0].split()[1]) if rest else 0
                numbers[message.body.splitlines()[-1].split()[-1]] = (len(words) + more, at)
            counted = sum(number for number, _ in numbers.values())
            if counted != len(known):
                found.append(f"{target} was told of {counted} of {len(known)} notices")
            if len(numbers) > len(known) - STORM + 80:
                found.append(f"{target} got {len(numbers)} messages in spite of folding")
        late = [
            summary
            for summary, one in known.items()
            if one.severity == "critical" and int(summary[1:-1]) < self.alone and not self._told_by(summary, one.at)
        ]
        return found + [f"{one} is critical and was told too late" for one in late]

    def _told_by(self, summary: str, since: int) -> bool:
        bound = since + int((CRITICAL_BOUND_S + 3 * 60) * SECOND)  # two claims of planes that died, and a fault each
        return any(at <= bound and summary in message.body for at, message in self.took["good"])


def histories(folder: Any, number: int) -> Iterator[tuple[int, list[str]]]:
    for seed in range(number):
        history = History(seed, folder)
        with closing(history.engine):
            yield seed, history.run()


@pytest.mark.req("PLB-5")
def test_every_notice_is_told_or_counted_at_least_once_and_nothing_else_is(tmp_path: Any) -> None:
    assert [(seed, found) for seed, found in histories(tmp_path, HISTORIES) if found] == []


def _mark_first(real: Callable[..., int]) -> Callable[..., int]:
    """Spreading that moves its mark in a transaction of its own, before the messages are written."""

    def spread(self: Spreading, tx: Tx, fence: LeaseFence | None) -> int:
        entries = spreading._new(tx, 1)
        if entries and entries[0].seq % 7 == 0:
            mark = entries[0].mark
            tx.facts.put(spreading.SPREAD_TO, {"xact": mark.xact, "seq": mark.seq})
            return 1
        return real(self, tx, fence)

    return spread


def _settled_before(_: Callable[..., bool]) -> Callable[..., bool]:
    """Delivering that writes down that a message went out before it does."""

    def send(self: Delivering, claimed: Any) -> bool:
        self._store.transact("settle_message", lambda tx: delivering._settle(claimed, "", tx))
        self._channel.send(self._source.current().targets[claimed.target], delivering.message_of(claimed, "p"))
        return True

    return send


@pytest.mark.req("PLB-5")
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [(Spreading, "_spread", _mark_first), (Delivering, "_send", _settled_before)],
    ids=["a notice is passed over", "sent is written down before it is sent"],
)
def test_the_auditor_notices_a_planted_fault(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    assert any(found for _, found in histories(tmp_path, HISTORIES))
