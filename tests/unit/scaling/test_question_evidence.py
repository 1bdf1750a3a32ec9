"""What an open question about a count rests on: when it ends, and when a yes to it counts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.fleet import DesiredState, Mode, ScalingBlock
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.question_evidence import Patience, Says, Want, closed, heard, unfit
from fleetwarden.testing import a_service

ASKED = 1_800_000_000 * SECOND
PATIENCE = Patience()
BLOCK = ScalingBlock(min=1, max=4, signals=(), line=3)
TICKS = st.lists(st.sampled_from(list(Says)), min_size=1, max_size=60)


def after(ticks: Sequence[Says], *, every_s: int = 60) -> tuple[Want, str | None, int]:
    """The want after these ticks, why the question was withdrawn if it was, and when that is."""
    want, at = Want(wanted_at=ASKED), ASKED
    for says in ticks:
        at += every_s * SECOND
        want, ended = heard(want, says, "" if says is Says.WANTED else f"tick {says.value}", at, PATIENCE)
        if ended is not None:
            return want, ended, at
    return want, None, at


@pytest.mark.req("AUT-2")
@pytest.mark.parametrize(("ticks", "ends"), [(3, False), (4, True)])
def test_a_question_ends_once_ticks_have_said_otherwise_for_its_time_and_not_before(ticks: int, ends: bool) -> None:
    _, ended, _ = after([Says.AGAINST] * ticks)  # the first begins the 180 seconds
    assert (ended is not None) is ends


@pytest.mark.req("AUT-2")
def test_silence_neither_ends_nor_interrupts_that_time() -> None:
    assert after([Says.AGAINST, Says.SILENT, Says.SILENT, Says.SILENT])[1] is None
    want, ended, _ = after([Says.AGAINST, Says.SILENT, Says.SILENT, Says.AGAINST])
    assert ended == "not wanted any more for 180 s: tick against"
    assert want.against_since == ASKED + 60 * SECOND


@pytest.mark.req("AUT-2")
def test_what_evidence_said_is_told_through_a_silence() -> None:
    want, _, at = after([Says.AGAINST, Says.SILENT])
    assert "tick against" in str(unfit(want, at, PATIENCE))
    want, _, at = after([Says.TOO_FAR, Says.SILENT])
    assert "takes away more" in str(unfit(want, at, PATIENCE))


@pytest.mark.req("AUT-2", "ASC-8")
def test_a_want_that_stays_is_written_once_a_minute_at_most() -> None:
    want = Want(wanted_at=ASKED)
    assert heard(want, Says.WANTED, "", ASKED + 59 * SECOND, PATIENCE)[0] is want
    assert heard(want, Says.WANTED, "", ASKED + 60 * SECOND, PATIENCE)[0].wanted_at == ASKED + 60 * SECOND


@pytest.mark.req("AUT-2", "POL-17")
@given(TICKS)
def test_a_yes_counts_only_while_the_newest_tick_with_evidence_wants_all_of_it(ticks: list[Says]) -> None:
    want, ended, at = after(ticks)
    if ended is None:
        spoken = [one for one in ticks if one is not Says.SILENT]
        newest = spoken[-1] if spoken else Says.WANTED
        assert (unfit(want, at, PATIENCE) is None) is (newest is Says.WANTED)
    assert unfit(want, at + 601 * SECOND, PATIENCE) is not None  # and never where no tick has looked for long


@pytest.mark.req("AUT-2")
@given(TICKS)
def test_no_question_lives_on_without_being_wanted(ticks: list[Says]) -> None:
    _, ended, _ = after(ticks)
    if ended is None and len(ticks) >= 10:
        assert {Says.WANTED, Says.TOO_FAR} & set(ticks[-10:])


@pytest.mark.req("AUT-12", "AUT-18")
def test_where_nothing_follows_load_it_says_why_and_where_load_is_followed_it_says_nothing() -> None:
    service = a_service("web", replicas=2, scaling=BLOCK)
    assert closed(service) is None
    assert closed(None) == "it is no longer in the registry"
    told = [
        closed(msgspec.structs.replace(service, **change))
        for change in (
            {"desired": DesiredState.STOPPED},
            {"mode": Mode.OBSERVE},
            {"scaling": None},
            {"scaling": msgspec.structs.replace(BLOCK, paused=True)},
            {"scaling": msgspec.structs.replace(BLOCK, controller_mode="external_keda")},
        )
    ]
    assert told == [
        "it is to be stopped",
        "its mode is observe",
        "it has no valid scaling block any more",
        "its scaling is paused",
        "external_keda writes its count",
    ]
