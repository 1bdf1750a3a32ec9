"""kill -9 at each point of the commit that keeps events: after a 202 they are there, before it whole bodies only."""

from __future__ import annotations

import pytest

from tests.acceptance.crash.depth import FULL, ON_BOTH_IN_FULL
from tests.acceptance.storm.senders import Alert, Senders, alert
from tests.acceptance.storm.world import Stormy

BODIES, ALERTS = 24, 5
PLACES = ("before#1", "within#1", "after#1", "before#2", "within#2", "after#2", "within#4", "after#4")
QUICK = ("within#2", "after#2")


def killed(stormy: Stormy, place: str, bodies: list[list[Alert]]) -> None:
    """A plane that dies there while these bodies come, and what it leaves behind."""
    there_before = len(stormy.events())
    stormy.up(KILL_AT=place, SLOW_COMMIT_S="0.02")
    senders = Senders(stormy.port, stormy.token, bodies, again=False)
    senders.start()
    senders.join()
    assert stormy.world.planes[-1].process.wait(30) == -9
    kept = stormy.events()
    for number, body in enumerate(bodies):
        there = [one["fingerprint"] in kept for one in body]
        assert all(there) if number in senders.answers else len(set(there)) == 1
    assert senders.acknowledged < len(bodies)
    if place.startswith("after"):  # committed, and nobody was told: it will be sent again
        assert len(kept) - there_before > ALERTS * senders.acknowledged


@ON_BOTH_IN_FULL
@pytest.mark.req("EVT-1", "EVT-3")
def test_what_was_answered_is_there_and_what_was_not_is_there_whole_or_not_at_all(stormy: Stormy) -> None:
    stormy.declare(["web"])
    places = PLACES if FULL else QUICK
    bodies: list[list[Alert]] = []
    for turn, place in enumerate(places):
        first = turn * BODIES * ALERTS
        mine = [[alert(first + body * ALERTS + at, "nobody") for at in range(ALERTS)] for body in range(BODIES)]
        killed(stormy, place, mine)
        bodies += mine
    before = {fingerprint: one["seq"] for fingerprint, one in stormy.events().items()}
    assert before

    stormy.up()
    again = Senders(stormy.port, stormy.token, bodies)
    again.start()
    again.join()
    for number, body in enumerate(bodies):
        known = body[0]["fingerprint"] in before
        told = again.answers[number]
        assert (told["accepted"], told["duplicates"]) == ((0, ALERTS) if known else (ALERTS, 0))
    now = stormy.events()
    assert len(now) == len(bodies) * ALERTS
    assert {one: now[one]["seq"] for one in before} == before
    [steps] = stormy.rows("SELECT count(*) AS n FROM work_items WHERE kind = 'fleet_event_triage'")
    assert steps["n"] == len(now)  # one step for each, whatever was killed
