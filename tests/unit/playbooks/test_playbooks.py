"""Which playbook answers an event, and which step follows which."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity, StoredEvent
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.playbooks import (
    BUILT_IN,
    End,
    PlaybookEntry,
    PlaybookStep,
    StepKind,
    When,
    built_in,
    failures_in_a_row,
    inert,
    linear,
    look_up,
)

MAX_AGE = 900 * SECOND


def event(seq: int = 1, *, at: int = 0, status: str = "", **fields: Any) -> StoredEvent:
    kept = {name: fields.pop(name) for name in ("late", "repeat_of", "ended_at", "closes") if name in fields}
    given: dict[str, Any] = {"severity": Severity.CRITICAL, "phase": Phase.FIRING, "class_": EventClass.DOWN}
    words = {name: "firing" if name == "status" else "web" for name in ("status", "subject", "fingerprint", "service")}
    told = FleetEvent(**{"source": "alertmanager", **words, **given, **fields})
    return StoredEvent(seq=seq, at=at, event=told, seen_at=at, remediation_status=status, **kept)


def names(steps: tuple[PlaybookStep, ...]) -> list[str]:
    return [one.kind.value for one in steps]


@pytest.mark.req("PLB-6", "PLB-3", "PLB-2", "PLB-1")
@pytest.mark.parametrize(
    ("kind", "outages", "expected"),
    [
        (EventClass.PRESSURE, 9, "resource_pressure"),
        (EventClass.FLAPPING, 0, "service_flapping"),
        (EventClass.DOWN, 3, "service_flapping"),
        (EventClass.DOWN, 2, "service_down"),
        (EventClass.NONE, 5, "tell"),
    ],
)
def test_the_class_chooses_pressure_before_flapping_before_down(kind: EventClass, outages: int, expected: str) -> None:
    name, steps = built_in(event(class_=kind), outages)
    assert name == expected
    assert name in BUILT_IN
    assert (StepKind.DECIDE in names(steps)) == (expected == "service_down"), "nothing else ever acts"


@pytest.mark.req("EVT-5", "EVT-2", "PLB-6", "POL-12")
@pytest.mark.parametrize(
    ("given", "status"),
    [
        (event(phase=Phase.RESOLVED), "resolved"),
        (event(phase=Phase.NOTE), "noted"),
        (event(late=True), "late"),
        (event(repeat_of=7), "repeat"),
        (event(ended_at=5), "resolved"),
        (event(severity=Severity.WARNING), "triaged"),
        (event(severity=Severity.INFO), "triaged"),
        (event(service=None), "unmatched"),
        (event(at=-MAX_AGE - 1), "too_old"),
    ],
)
def test_what_no_playbook_answers(given: StoredEvent, status: str) -> None:
    end = inert(given, 0, MAX_AGE)
    assert end is not None
    assert end.status == status


@pytest.mark.parametrize("severity", [Severity.CRITICAL, Severity.ERROR])
def test_critical_and_error_are_answered_until_they_are_too_old(severity: Severity) -> None:
    assert inert(event(severity=severity, at=-MAX_AGE), 0, MAX_AGE) is None


def entry(name: str, *on: str, **fields: Any) -> PlaybookEntry:
    return PlaybookEntry(name=name, on=on, steps=(PlaybookStep(kind=StepKind.NOTIFY),), **fields)


@pytest.mark.req("PLB-6")
def test_source_and_severity_come_before_the_source_and_the_first_that_fits_wins() -> None:
    by_source, exact = entry("all", "alertmanager"), entry("exact", "alertmanager:critical")
    assert look_up([by_source, exact], event()) == exact
    assert look_up([by_source, exact], event(severity=Severity.ERROR)) == by_source
    assert look_up([by_source, exact], event(source="grafana")) is None
    web, other = entry("web", "alertmanager", services=("we*",)), entry("db", "alertmanager", services=("db",))
    assert look_up([other, web, by_source], event()) == web
    assert look_up([entry("p", "alertmanager", class_="pressure"), by_source], event()) == by_source


@pytest.mark.req("PLB-6")
def test_a_source_of_events_yml_is_named_by_its_own_name_too() -> None:
    by_kind, by_name = entry("kind", "grafana"), entry("name", "house")
    assert look_up([by_kind, by_name], event(source="grafana", origin="house")) == by_name
    sharp = entry("sharp", "grafana:critical")
    assert look_up([sharp, by_name], event(source="grafana", origin="house")) == sharp
    assert look_up([by_name], event(source="grafana", origin="yard")) is None


@pytest.mark.req("PLB-6")
@pytest.mark.parametrize("word", ["uptime_kuma", "uptimekuma", "kuma", "uptime-kuma"])
def test_a_playbook_may_spell_its_source_as_senders_do(word: str) -> None:
    beat = event(source="uptime-kuma")
    assert look_up([sharp := entry("sharp", f"{word}:critical")], beat) == sharp
    assert look_up([plain := entry("plain", word)], beat) == plain
    assert look_up([entry("other", "grafana")], beat) is None


def step(kind: str, when: When = When.ALWAYS) -> PlaybookStep:
    return PlaybookStep(kind=StepKind(kind), when=when)


DOWN = (step("confirm"), step("decide"), step("act"), step("watch"), step("escalate", When.FAILED))


def log(*lines: tuple[int, str, bool]) -> list[dict[str, Any]]:
    return [{"step": place, "kind": kind, "ok": ok, "outcome": kind} for place, kind, ok in lines]


@pytest.mark.req("PLB-1", "PLB-4")
def test_a_list_is_walked_step_by_step_and_a_failure_goes_to_the_escalation() -> None:
    taken: list[tuple[int, str, bool]] = []
    for place, kind in enumerate(("confirm", "decide", "act", "watch")):
        assert linear(DOWN, log(*taken)) == (place, DOWN[place])
        assert linear(DOWN, log(*taken, (place, kind, False))) == (4, DOWN[4])
        taken.append((place, kind, True))
    assert linear(DOWN, log(*taken)) == End(status="succeeded")
    end = linear(DOWN, log((0, "confirm", True), (1, "decide", False), (4, "escalate", True)))
    assert isinstance(end, End)
    assert end.status == "escalated"


def test_without_an_escalation_a_failure_is_a_failure_and_telling_is_only_telling() -> None:
    end = linear((step("decide"),), log((0, "decide", False)))
    assert isinstance(end, End)
    assert end.status == "failed"
    assert linear((step("notify"),), log((0, "notify", True))) == End(status="notified")


KINDS = st.sampled_from([one.value for one in StepKind])


@given(
    st.lists(st.tuples(KINDS, st.sampled_from(list(When))), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_every_list_ends_and_nothing_acts_after_a_failure(shape: list[tuple[str, When]], fates: list[bool]) -> None:
    steps = tuple(step(kind, when) for kind, when in shape)
    lines: list[dict[str, Any]] = []
    for _ in range(len(steps) + 1):
        following = linear(steps, lines)
        if isinstance(following, End):
            break
        place, one = following
        assert all(place > line["step"] for line in lines)
        if any(not line["ok"] for line in lines):
            assert one.kind in (StepKind.NOTIFY, StepKind.ESCALATE)
            assert one.when is not When.OK
        lines += log((place, one.kind.value, fates[place]))
    else:
        pytest.fail("it does not end")


@pytest.mark.req("PLB-7")
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["running", "failed", "escalated"], 3),
        (["running", "succeeded", "failed"], 1),
        (["running", "recovered"], 1),
        (["succeeded", "failed", "failed"], 0),
        ([], 0),
    ],
)
def test_failures_in_a_row_end_with_one_that_was_healed(statuses: list[str], expected: int) -> None:
    outages = [event(number, at=-number, status=one) for number, one in enumerate(statuses)]
    assert failures_in_a_row(outages) == outages[:expected]


@pytest.mark.req("PLB-7")
def test_alerts_that_were_stored_at_once_are_one_failure() -> None:
    first, second, before = event(3, at=9, status="failed"), event(2, at=9, status="failed"), event(1, status="failed")
    assert failures_in_a_row([first, second, before]) == [first, before]


def test_a_step_is_stored_and_read_back_as_it_was() -> None:
    assert msgspec.convert(msgspec.to_builtins(DOWN), tuple[PlaybookStep, ...]) == DOWN
