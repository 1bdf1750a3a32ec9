"""Two processes ask for the last slot of a budget at the same moment, again and again: exactly one gets it."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest

from fleetwarden.adapters.system import SystemClock
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Page, Tx
from fleetwarden.store.opening import open_store
from tests.acceptance.crash.depth import FULL
from tests.acceptance.planes.racer import TARGETS
from tests.acceptance.planes.world import Racer
from tests.postgresql import Cluster

ROUNDS = 1_000 if FULL else 60


def free(seq: int, tx: Tx) -> None:
    tx.outbox.abandon(seq, "the slot is free again")


@pytest.mark.req("POL-6", "RUN-1")
@pytest.mark.needs("postgresql")
def test_two_processes_that_race_for_the_last_slot_never_both_get_it(postgresql: Cluster) -> None:
    url = postgresql.url(postgresql.empty_database())
    with closing(open_store(url, SystemClock())) as store, closing(Racer(url, "a")) as a, closing(Racer(url, "b")) as b:
        winners = set()
        for number in range(ROUNDS):
            asked = dict(zip((a, b), TARGETS if number % 2 else reversed(TARGETS), strict=True))
            for racer, target in asked.items():
                racer.ask(target)
            answers = {racer.answer(): target for racer, target in asked.items()}
            assert len(answers) == 2, answers
            assert set(answers) <= {"prepared", "queued", "waiting"}, answers  # over the radius a person is asked
            [won] = store.read(lambda tx: tx.outbox.in_state(OutboxState.PREPARED))
            assert won.request.target == answers["prepared"]
            winners.add(won.request.requested_by)
            store.transact("next round", partial(free, won.seq))
        assert winners == {"a", "b"}, "a race in which the same one always wins is none"
        assert len(store.read(lambda tx: tx.outbox.list(Page(state="abandoned", limit=500)))) == min(ROUNDS, 500)
