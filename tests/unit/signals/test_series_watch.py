"""Fewer series than before are a loss until shown otherwise."""

from __future__ import annotations

import pytest

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.located import located
from fleetwarden.domain.series_watch import SeriesWatch
from fleetwarden.domain.signal_file import read_signals_file

T = 1_790_000_000


def told(watch: SeriesWatch, series: int, at_s: int) -> bool:
    """Whether something speaks against shrinking."""
    return bool(watch.note(0, series, (T + at_s) * SECOND))


@pytest.mark.req("SGP-4", "SGP-10", "SGP-1")
def test_a_fall_blocks_until_it_has_lasted_and_a_further_one_begins_anew() -> None:
    watch = SeriesWatch(1)
    assert not told(watch, 8, 0)
    assert told(watch, 5, 15)
    assert told(watch, 4, 300)  # fewer still: the time begins again
    assert told(watch, 5, 614)
    assert told(watch, 4, 899)
    assert not told(watch, 4, 900)
    assert not told(watch, 4, 915)


@pytest.mark.req("SGP-4")
def test_series_that_come_back_end_it_and_uncounted_ones_say_nothing() -> None:
    watch = SeriesWatch(1)
    assert [told(watch, one, 15 * n) for n, one in enumerate([0, 3, 2, 3, 0, 2])] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.req("SGP-4", "ASC-5")
def test_fewer_replicas_explain_as_many_series_fewer_and_no_more() -> None:
    watch = SeriesWatch(1)
    told(watch, 10, 0)  # two for each of five replicas
    watch.fewer_replicas(slice(0, 1), 5, 4, (T + 10) * SECOND)
    assert [told(watch, one, at) for one, at in ((10, 15), (8, 30), (7, 45))] == [False, False, True]
    assert not told(watch, 8, 620)
    assert told(watch, 7, 635)  # eight are the usual number by now


@pytest.mark.req("SGP-8", "ORC-4")
@pytest.mark.parametrize(
    ("line", "wrong"),
    [({"series_vary": True}, ""), ({"series_vary": "yes"}, "series_vary"), ({"source": "pushed"}, "no series")],
)
def test_the_file_may_say_that_the_number_varies(line: dict[str, object], wrong: str) -> None:
    base: dict[str, object] = {"kind": "queue", "aggregation": "fleet_total", "unit": "items", "services": ["web"]}
    more = {"query": "q", "series_vary": True} if "source" not in line else {"series_vary": True}
    node = located({"sources": {"main": {"url": "http://h"}}, "signals": {"q": base | more | line}}, "signals.yml")
    if wrong:
        with pytest.raises(Misconfigured, match="cannot be used") as caught:
            read_signals_file(node)
        assert any(wrong in one.reason for one in caught.value.problems)
    else:
        assert read_signals_file(node).definitions["q"].series_vary
