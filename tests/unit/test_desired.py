"""Wishes layered over the files, and what counts as a change by somebody else."""

from __future__ import annotations

import pytest

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.convergence import Need, Rest, converge, still_needed
from fleetwarden.domain.desired import (
    Baseline,
    Change,
    ForeignChange,
    ForeignField,
    ForeignState,
    Override,
    asked_for,
    baseline_of,
    changes_since,
    layered,
    left_by,
)
from fleetwarden.domain.fleet import DesiredState, Presence, ScalingBlock, ServiceStatus
from fleetwarden.testing import a_request, a_service, an_observation

WEB = a_service("web", replicas=2, version="1", source="fleet.yml:3")


def override(replicas=None, state=None, seq=3):
    return Override(seq=seq, service="web", replicas=replicas, state=state, reason="load", by="ada", at=5)


def change(field=ForeignField.REPLICAS, before="2", after="5", **fields):
    return ForeignChange(
        **{
            "seq": 7,
            "service": "web",
            "field": field,
            "before": before,
            "after": after,
            "writer": "",
            "at": 5,
            "hold_until": 9,
            "pauses": False,
            "status": ForeignState.HELD,
            **fields,
        }
    )


def seen(replicas=2, **fields):
    return an_observation(a_service("web", replicas=replicas), at=100, **fields)


@pytest.mark.req("AUT-12")
def test_an_override_changes_what_it_names_and_nothing_else():
    counted = layered(WEB, override(replicas=4), ())
    assert (counted.replicas, counted.desired, counted.version) == (4, DesiredState.RUNNING, "1")
    assert counted.source == "fleet.yml:3, override O-3 of ada"
    stopped = layered(WEB, override(state=DesiredState.STOPPED), ())
    assert (stopped.replicas, stopped.desired) == (2, DesiredState.STOPPED)
    assert layered(WEB, None, ()) is WEB


@pytest.mark.req("AUT-12")
def test_what_an_override_needs_is_asked_for_in_the_name_of_whoever_set_it():
    need = converge(layered(WEB, override(replicas=4), ()), seen())
    assert isinstance(need, Need)
    assert (need.kind, need.params, need.by) == (Kind.SCALE, {"replicas": 4}, "ada")
    assert "O-3" in need.reason
    stop = converge(layered(WEB, override(state=DesiredState.STOPPED), ()), seen())
    assert isinstance(stop, Need)
    assert (stop.kind, stop.by) == (Kind.STOP, "ada")
    repair = converge(layered(WEB, override(replicas=2), ()), seen(status=ServiceStatus.DOWN))
    assert isinstance(repair, Need)
    assert (repair.kind, repair.by) == (Kind.RESTART, "")


@pytest.mark.req("AUT-11")
def test_only_an_override_sets_the_count_of_a_service_with_a_scaling_block():
    scaled = a_service("web", replicas=2, scaling=ScalingBlock(line=3))
    for one, look in ((scaled, seen(5)), (layered(scaled, None, [change()]), seen(7))):
        rest = converge(one, look)
        assert isinstance(rest, Rest)
        assert rest.code == "follows_load"
    need = converge(layered(scaled, override(replicas=4), ()), seen(5))
    assert isinstance(need, Need)
    assert need.params == {"replicas": 4}


@pytest.mark.req("REC-9", "AUT-11")
def test_a_change_after_an_override_is_held_though_the_service_follows_load():
    scaled = a_service("web", replicas=2, scaling=ScalingBlock(line=3))
    held = layered(scaled, override(replicas=4), [change()])
    rest = converge(held, seen(5))
    assert held.replicas == 5
    assert isinstance(rest, Rest)
    assert rest.code == "foreign_held"
    assert not asked_for(scaled, change())  # load writes the count: nobody else's is what is asked for
    assert asked_for(layered(scaled, override(replicas=5), ()), change())


@pytest.mark.req("REC-9")
def test_a_held_change_is_what_is_asked_for_and_names_its_release():
    held = layered(WEB, override(replicas=3), [change()])
    rest = converge(held, seen(5, version="1"))
    assert isinstance(rest, Rest)
    assert rest.code == "foreign_held"
    assert "scaled by somebody else, 2 → 5 (C-7), held until" in rest.reason
    assert "fleetwarden adopt web" in rest.reason
    assert still_needed(a_request(held, kind=Kind.SCALE, params={"replicas": 2}), held, seen(5, version="1"))


@pytest.mark.req("REC-9")
def test_a_paused_service_needs_nothing_whatever_is_seen():
    paused = layered(WEB, None, [change(pauses=True, hold_until=None)])
    for look in (None, seen(5), seen(5, status=ServiceStatus.DOWN), seen(1)):
        rest = converge(paused, look)
        assert isinstance(rest, Rest)
        assert rest.code == "foreign_paused"


@pytest.mark.req("REC-9")
def test_an_adopted_change_is_asked_for_without_being_held():
    kept = layered(WEB, None, [change(status=ForeignState.ADOPTED, hold_until=None, ended_by="ada")])
    assert (kept.replicas, kept.held, kept.paused) == (5, "", "")
    need = converge(kept, seen(2, version="1"))
    assert isinstance(need, Need)
    assert (need.params, need.by) == ({"replicas": 5}, "ada")


@pytest.mark.req("REC-9")
@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, []),
        ({"replicas": 5}, [("replicas", "2", "5")]),
        ({"version": "2"}, [("version", "1", "2")]),
        ({"replicas": 3, "version": "2"}, [("replicas", "2", "3"), ("version", "1", "2")]),
        ({"version": ""}, []),
        ({"replicas": 5, "status": ServiceStatus.UNKNOWN}, []),
        ({"replicas": 0, "presence": Presence.NOT_SINCE_BOOT}, []),
        ({"replicas": 0, "presence": Presence.STOPPED_BY_US}, []),
        ({"replicas": 0, "presence": Presence.STOPPED_BY_OTHER}, [("state", "running", "stopped")]),
    ],
)
def test_what_is_not_as_we_left_it_is_a_change_and_what_cannot_be_told_is_none(fields, found):
    left = Baseline(service="web", replicas=2, version="1", stopped=False, at=50)
    look = seen(**{"version": "1", **fields})
    assert [(one.field.value, one.before, one.after) for one in changes_since(left, look)] == found


@pytest.mark.req("REC-9")
def test_a_look_that_began_before_our_action_ended_says_nothing():
    left = Baseline(service="web", replicas=2, stopped=False, at=100)
    assert changes_since(left, seen(5)) == ()


@pytest.mark.req("REC-9")
def test_what_an_action_left_is_known_as_far_as_it_says():
    before = Baseline(service="web", replicas=2, version="1", stopped=False, at=1)
    scaled = left_by(before, "web", Kind.SCALE, {"replicas": 7}, 9)
    assert (scaled.replicas, scaled.version, scaled.at) == (7, None, 9)
    assert left_by(before, "web", Kind.STOP, {}, 9) == Baseline(service="web", stopped=True, at=9)
    assert left_by(before, "web", Kind.RESTART, {}, 9).replicas == 2
    assert left_by(before, "web", Kind.START, {}, 9).replicas is None
    assert left_by(None, "web", Kind.DEPLOY, {"version": "2"}, 9).version is None


@pytest.mark.req("REC-9")
def test_a_baseline_keeps_what_a_look_does_not_tell():
    before = Baseline(service="web", replicas=2, version="1", stopped=False, at=1)
    stopped = baseline_of(WEB, seen(0, presence=Presence.STOPPED_BY_OTHER), before)
    assert (stopped.replicas, stopped.version, stopped.stopped) == (2, "1", True)
    assert baseline_of(WEB, seen(4, status=ServiceStatus.UNKNOWN), before) is before
    assert baseline_of(WEB, seen(4), None).replicas == 4


@pytest.mark.req("REC-9")
@pytest.mark.parametrize(
    ("field", "after", "asked"),
    [
        (ForeignField.REPLICAS, "2", True),
        (ForeignField.REPLICAS, "3", False),
        (ForeignField.VERSION, "1", True),
        (ForeignField.VERSION, "2", False),
        (ForeignField.STATE, "stopped", False),
    ],
)
def test_what_is_asked_for_anyway_is_not_held(field, after, asked):
    assert asked_for(WEB, Change(field=field, before="x", after=after)) is asked
