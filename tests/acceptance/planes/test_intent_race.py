"""Several processes put the revision after the same one at the same moment, again and again: one is accepted."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from fleetwarden.adapters.system import SystemClock
from fleetwarden.ports.stores import Page
from fleetwarden.store.opening import open_store
from tests.acceptance.crash.depth import FULL
from tests.acceptance.planes.intent_racer import SERVICE
from tests.acceptance.planes.world import Racer
from tests.postgresql import Cluster

RACERS = 4
ROUNDS = 400 if FULL else 40


@pytest.mark.req("AUT-4", "AUT-20")
@pytest.mark.needs("postgresql")
def test_of_processes_that_put_the_same_revision_one_is_accepted_and_the_others_are_stale(postgresql: Cluster) -> None:
    url = postgresql.url(postgresql.empty_database())
    with closing(open_store(url, SystemClock())) as store, ExitStack() as stack:
        racers = {
            count: stack.enter_context(closing(Racer(url, str(count), "intent_racer")))
            for count in range(2, 2 + RACERS)
        }
        winners = set()
        for number in range(ROUNDS):
            order = list(racers)[number % RACERS :] + list(racers)[: number % RACERS]
            for count in order:
                racers[count].ask(str(number))
            answers = {count: racers[count].answer() for count in order}
            assert sorted(answers.values()) == ["accepted", *["stale"] * (RACERS - 1)], answers
            [won] = [count for count, answer in answers.items() if answer == "accepted"]
            latest = store.read(lambda tx: tx.intents.latest(SERVICE))
            assert latest is not None
            assert (latest.intent.revision, latest.intent.desired_replicas) == (number + 1, won)
            winners.add(won)
        rows = store.read(lambda tx: tx.intents.list(Page(target=SERVICE, limit=500)))
        decided = store.read(lambda tx: tx.decisions.list(Page(limit=500)))
        assert [one.intent.revision for one in rows] == list(range(ROUNDS, 0, -1))
        assert len(decided) == ROUNDS, "a decision whose intent was stale was kept"
        assert len(winners) > 1, "a race in which the same one always wins is none"
