"""What a tick of a replay has in hand: a gap is no sample, an old or used one neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.lab.recordings import Recording, Ticks, at_ticks

S = 1_000_000
NONE = None


def recording(times: Sequence[float], values: Sequence[float | None], **more: Sequence[float | None]) -> Recording:
    columns = {"q": values, **more}
    return Recording(
        name="load.csv",
        times=[round(at * S) for at in times],
        values={name: [math.nan if one is None else one for one in column] for name, column in columns.items()},
    )


def told(ticks: Ticks, name: str = "q") -> list[tuple[float, float | None]]:
    column = ticks.values[name].tolist()
    return [(at / S, None if math.isnan(one) else one) for at, one in zip(ticks.times.tolist(), column, strict=True)]


@pytest.mark.req("ASC-14", "SGP-4")
def test_a_gap_gets_ticks_without_a_sample_and_never_a_zero() -> None:
    found = at_ticks(recording([0, 15, 30, 90, 105], [5, 0, 7, 8, 9]))
    assert told(found) == [(0, 5), (15, 0), (30, 7), (45, NONE), (60, NONE), (75, NONE), (90, 8), (105, 9)]
    assert (found.filled, found.step_us) == (3, 15 * S)
    late = at_ticks(recording([0, 15, 30.4, 45, 60], [1, 2, 3, 4, 5]))  # a scrape that comes late is no gap
    assert (late.filled, [at for at, _ in told(late)]) == (0, [0, 15, 30.4, 45, 60])


@pytest.mark.req("ASC-14", "ASC-5")
def test_ticks_of_their_own_pace_see_the_newest_row_that_is_not_too_old() -> None:
    rows = recording([0, 60, 120, 600], [1, 2, 3, 9])
    assert told(at_ticks(rows, every_us=60 * S))[:4] == [(0, 1), (60, 2), (120, 3), (180, 3)]
    often = at_ticks(rows, every_us=30 * S)
    assert told(often)[:5] == [(0, 1), (30, 1), (60, 2), (90, 2), (120, 3)]
    assert often.measured is not None  # and it is known which of them is the same one again
    assert (often.measured["q"] - often.times[0]).tolist()[:5] == [0, 0, 60 * S, 60 * S, 120 * S]
    rare = told(at_ticks(rows, every_us=200 * S, max_age_s=120))
    assert rare == [(0, 1), (200, 3), (400, NONE), (600, 9)]
    assert told(at_ticks(rows, every_us=200 * S, max_age_s=60)) == [(0, 1), (200, NONE), (400, NONE), (600, 9)]


@pytest.mark.req("ASC-14", "SGP-4")
def test_what_is_no_usable_number_is_no_sample_and_counted() -> None:
    found = at_ticks(recording([0, 15, 30, 45, 60], [1, -1, math.inf, 1e16, NONE]))
    assert ([value for _, value in told(found)], found.unusable) == ([1, NONE, NONE, NONE, NONE], 3)


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    ("times", "values", "every", "words"),
    [
        ([0], [1], None, "1 row of samples"),
        ([0, 15], [NONE, -4], None, "no usable sample"),
        ([0, 1, 9e9], [1, 2, 3], None, "at most 5,000,000"),
        ([0, 15], [1, 2], 60, "shorter than one interval"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    times: list[float], values: list[float | None], every: int | None, words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        at_ticks(recording(times, values), every_us=None if every is None else every * S)


@pytest.mark.req("ASC-14")
@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.sampled_from([None, 5, 15, 60]))
def test_ticks_go_from_the_first_to_the_last_row_and_lose_no_row_of_their_own(
    gaps: list[int], every: int | None
) -> None:
    times = [0.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    if every is not None and times[-1] < every:
        return
    values = [float(number) for number in range(len(times))]
    found = told(at_ticks(recording(times, values), every_us=None if every is None else every * S))
    seen = [value for _, value in found if value is not None]
    assert all(later > earlier for earlier, later in pairwise(found))
    assert seen == sorted(seen)
    if every is None:
        assert (seen, found[0][0], found[-1][0]) == (values, times[0], times[-1])
    for at, value in found:
        assert value is None or 0 <= at - times[int(value)] <= 120
