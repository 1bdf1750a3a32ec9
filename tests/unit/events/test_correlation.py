"""What a new event changes about its alert, whatever is doubled, shuffled or lost."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from fleetwarden.domain.correlation import SAME_WITHIN, Placed, place
from fleetwarden.domain.events import AlertState, EventClass, FleetEvent, Phase, Severity
from fleetwarden.domain.identifiers import SECOND

NOW = 1_000_000 * SECOND


def an_event(phase: Phase = Phase.FIRING, **over: Any) -> FleetEvent:
    fields: dict[str, Any] = {
        "source": "alertmanager",
        "severity": Severity.CRITICAL,
        "status": phase.value,
        "phase": phase,
        "subject": "web",
        "fingerprint": "f1",
        "class_": EventClass.DOWN,
        "service": "web",
        **over,
    }
    return FleetEvent(**fields)


def at(minutes: float) -> int:
    return NOW + int(minutes * 60 * SECOND)


def fold(*events: FleetEvent, start: int = NOW, step: int = SECOND) -> tuple[list[Placed], AlertState | None]:
    """Place them one after the other, as events 1, 2, …"""
    known: AlertState | None = None
    placed = []
    for seq, event in enumerate(events, 1):
        one = place(event, known, start + seq * step, seq)
        known = one.state or known
        placed.append(one)
    return placed, known


@pytest.mark.req("EVT-1", "OBS-3")
def test_a_firing_and_its_resolve_are_one_outage() -> None:
    placed, state = fold(
        an_event(starts_at=at(-9)), an_event(Phase.RESOLVED, starts_at=at(-9), ends_at=at(-1), severity=Severity.INFO)
    )
    assert placed[1].closes == 1
    assert not placed[0].flap
    assert state is not None
    assert (state.firing, state.starts_at, state.changed_at) == (False, at(-9), at(-1))


@pytest.mark.req("EVT-1")
def test_a_second_delivery_is_known_by_its_start() -> None:
    placed, state = fold(an_event(starts_at=at(-9)), an_event(starts_at=at(-9)))
    assert placed[1].same_as == 1
    assert state is not None
    assert state.seen_at == NOW + 2 * SECOND


@pytest.mark.req("OBS-3")
def test_beginning_again_after_the_end_is_a_flap_and_beginning_again_without_one_is_none() -> None:
    firing, over = an_event(starts_at=at(-9)), an_event(Phase.RESOLVED, starts_at=at(-9), ends_at=at(-8))
    again = an_event(starts_at=at(-7))
    assert fold(firing, over, again)[0][2].flap
    assert not fold(firing, again)[0][1].flap


@pytest.mark.req("OBS-3")
def test_the_order_of_arrival_does_not_matter_for_where_an_alert_stands() -> None:
    told = [
        an_event(starts_at=at(-9)),
        an_event(Phase.RESOLVED, starts_at=at(-9), ends_at=at(-8)),
        an_event(starts_at=at(-7)),
        an_event(Phase.RESOLVED, starts_at=at(-7), ends_at=at(-6)),
    ]
    for order in itertools.permutations(told):
        _, state = fold(*order, *order)
        assert state is not None
        assert (state.firing, state.starts_at) == (False, at(-7)), order
    for order in itertools.permutations(told[:3]):
        _, state = fold(*order)
        assert state is not None
        assert (state.firing, state.starts_at) == (True, at(-7)), order


@pytest.mark.req("OBS-3")
def test_a_sender_whose_start_is_the_time_of_its_message_reminds_without_a_new_outage() -> None:
    down = an_event(starts_at=at(-9), repeating=True)
    reminder = an_event(starts_at=at(-4), repeating=True)
    up = an_event(Phase.RESOLVED, ends_at=at(-1))
    placed, state = fold(down, reminder, up, an_event(starts_at=at(-0.5), repeating=True))
    assert (placed[1].repeat_of, placed[1].same_as) == (1, None)
    assert placed[2].closes == 1
    assert placed[3].flap
    assert state is not None
    assert state.starts_at == at(-0.5)


@pytest.mark.req("OBS-3")
def test_an_up_that_was_overtaken_by_a_newer_down_ends_nothing() -> None:
    placed, state = fold(
        an_event(starts_at=at(-3), repeating=True),
        an_event(Phase.RESOLVED, ends_at=at(-5)),
        an_event(starts_at=at(-8), repeating=True),
    )
    assert [one.late for one in placed] == [False, True, True]
    assert state is not None
    assert state.firing


@pytest.mark.req("OBS-3")
def test_an_outage_that_its_sender_took_for_ended_begins_again_with_the_same_start() -> None:
    firing = an_event(starts_at=at(-9))
    first_end = an_event(Phase.RESOLVED, starts_at=at(-9), ends_at=at(1))
    second_end = an_event(Phase.RESOLVED, starts_at=at(-9), ends_at=at(30))
    told = (firing, first_end, firing, firing, first_end, second_end, second_end)
    placed, state = fold(*told, step=SAME_WITHIN + SECOND)
    assert (placed[2].flap, placed[2].late, placed[2].same_as) == (True, False, None)
    assert placed[3].same_as == 3
    assert placed[4].late  # the first end comes once more
    assert placed[5].closes == 3
    assert placed[6].same_as == 6
    assert len({placed[one].key for one in (0, 1, 2, 5)}) == 4
    assert state is not None
    assert not state.firing
    soon, _ = fold(firing, first_end, firing)
    assert soon[2].late


@pytest.mark.req("EVT-1")
def test_without_any_time_the_same_words_soon_after_are_a_delivery_and_later_on_a_reminder() -> None:
    soon, _ = fold(an_event(), an_event())
    assert soon[1].same_as == 1
    later, _ = fold(an_event(), an_event(), step=SAME_WITHIN + 1)
    assert (later[1].same_as, later[1].repeat_of) == (None, 1)
    ended, state = fold(an_event(), an_event(Phase.RESOLVED), an_event(Phase.RESOLVED))
    assert (ended[1].closes, ended[2].same_as) == (1, 2)
    assert state is not None
    assert not state.firing


@pytest.mark.req("EVT-5")
def test_a_note_neither_begins_nor_ends_anything() -> None:
    placed, state = fold(an_event(starts_at=at(-9)), an_event(Phase.NOTE, status="no_data"))
    assert placed[1].state is None
    assert state is not None
    assert state.firing


@pytest.mark.req("OBS-3")
def test_a_start_in_the_future_is_not_believed() -> None:
    _, state = fold(an_event(starts_at=at(60)))
    assert state is not None
    assert state.changed_at == NOW + SECOND
    assert msgspec.structs.asdict(state)["starts_at"] == at(60)


@pytest.mark.req("OBS-3", "EVT-1")
def test_a_start_far_in_the_future_makes_no_later_outage_late() -> None:
    ahead = an_event(starts_at=at(60 * 24 * 365))
    placed, state = fold(ahead, an_event(starts_at=at(-1)), start=at(0))
    assert placed[1].late, "it began before the first was told"
    again, over = an_event(starts_at=at(7)), an_event(Phase.RESOLVED, starts_at=at(7), ends_at=at(8))
    placed, state = fold(ahead, again, over, start=at(5), step=60 * SECOND)
    assert ([one.late for one in placed], placed[2].closes) == ([False, False, False], 2)
    assert state is not None
    assert not state.firing


@pytest.mark.req("OBS-3", "EVT-1")
def test_a_delivery_that_comes_after_its_end_is_late_whatever_clock_its_sender_has() -> None:
    ahead, over = an_event(starts_at=at(60)), an_event(Phase.RESOLVED, starts_at=at(60), ends_at=at(61))
    placed, state = fold(ahead, over, ahead)
    assert placed[2].late
    assert state is not None
    assert not state.firing
