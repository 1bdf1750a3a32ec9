"""Options of `backtest` that do not go together, and texts that say no time and no query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleetwarden.cli.backtest import _Asked, _moment, _queries
from fleetwarden.domain.errors import Misconfigured

CSV = Path("load.csv")
URL = "http://127.0.0.1:9090"


def asked(csv: Path | None = None, prometheus: str | None = None, **over: Any) -> _Asked:
    given: dict[str, Any] = {"queries": (), "span": None, "start": None, "end": None, "step": None, **over}
    return _Asked(csv, prometheus, **given)


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one source is needed"),
        ({"csv": CSV, "prometheus": URL}, "one source is needed"),
        ({"csv": CSV, "span": 60.0}, "--range goes with --prometheus"),
        ({"csv": CSV, "queries": ["up"]}, "--query goes with --prometheus"),
        ({"csv": CSV, "step": 15.0}, "--step goes with --prometheus"),
        ({"prometheus": URL}, "one range is needed"),
        ({"prometheus": URL, "span": 60.0, "start": "1"}, "one range is needed"),
        ({"prometheus": URL, "span": 60.0, "end": "1"}, "--range ends now"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        asked(**given)


@pytest.mark.req("ASC-14")
def test_a_query_says_which_signal_it_is_for_where_there_are_several() -> None:
    assert _queries(['sum(jobs{a="b"})'], ["q"]) == {"q": 'sum(jobs{a="b"})'}
    assert _queries(["cpu=avg(x)", "q = jobs"], ["q", "cpu"]) == {"cpu": "avg(x)", "q": "jobs"}
    assert _queries(["q=jobs"], ["q"]) == {"q": "jobs"}
    for given, names, words in (
        (["sum(jobs)"], ["q", "cpu"], "which signal"),
        (["q=a", "q=b"], ["q"], "given twice"),
        (["q= "], ["q"], "is empty"),
    ):
        with pytest.raises(Misconfigured, match=words):
            _queries(given, names)


@pytest.mark.req("ASC-14")
def test_times_have_a_zone_or_are_seconds() -> None:
    assert _moment("2026-09-21T14:13:20Z", "--start") == _moment("1790000000", "--start") == 1_790_000_000_000_000
    assert _moment("2026-09-21T16:13:20.5+02:00", "--start") == _moment("1790000000.5", "--end")
    for text in ("yesterday", "2026-09-21T14:13:20", "1e9", "-5", ""):
        with pytest.raises(Misconfigured, match="is no time"):
            _moment(text, "--start")
