"""CSV files of samples: what is written comes back, and every line that is wrong is named with its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.lab.csv_recordings import PROBLEMS_SHOWN, parse_csv, read_csv
from fleetwarden.lab.recordings import Recording

ROWS = st.lists(
    st.tuples(st.integers(1, 10_000), st.one_of(st.none(), st.floats(0, 1e9), st.integers(0, 10**6))), min_size=1
)


def problems(text: str, *signals: str) -> list[tuple[int, str]]:
    with pytest.raises(Misconfigured) as caught:
        parse_csv(text, "load.csv", signals or ("q",))
    assert all(one.file == "load.csv" for one in caught.value.problems)
    return [(one.line, one.reason) for one in caught.value.problems]


def same(one: float, other: float | None) -> bool:
    return math.isnan(one) if other is None else one == other


@pytest.mark.req("ASC-14")
@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]), st.booleans())
def test_what_is_written_comes_back_and_an_empty_cell_is_no_sample(
    rows: list[tuple[int, float | None]], ending: str, mark: str, iso: bool
) -> None:
    at, lines, times = 1_790_000_000, ["time,q"], []
    for gap, value in rows:
        at += gap
        times.append(at * 1_000_000)
        stamp = f"{_iso(at)}" if iso else str(at)
        lines.append(f"{stamp},{'' if value is None else repr(value)}")
    found = parse_csv((mark + ending.join(lines)).removeprefix("\ufeff"), "load.csv", ["q"])
    assert list(found.times) == times
    assert all(same(read, value) for read, (_, value) in zip(found.values["q"], rows, strict=True))


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.req("ASC-14")
@given(
    st.lists(st.sampled_from(["ok", "x,1", "{at},abc", "{at},1_0", "{at}", "{at},1,2", "5,1", "{at},0x1f"]), min_size=1)
)
def test_every_bad_line_is_named_and_no_good_one(kinds: list[str]) -> None:
    lines, bad = ["time,q", "1000,1"], []
    for number, kind in enumerate(kinds, start=3):
        lines.append(kind.format(at=1000 + number) if kind != "ok" else f"{1000 + number},7")
        bad += [number] if kind != "ok" else []
    text = "\n".join(lines)
    if not bad:
        assert len(parse_csv(text, "load.csv", ["q"]).times) == len(kinds) + 1
        return
    told = problems(text)
    assert [line for line, _ in told if line] == bad[:PROBLEMS_SHOWN]
    assert (len(bad) > PROBLEMS_SHOWN) == any("more line" in reason for _, reason in told)


@given(st.text(max_size=200), st.sampled_from([("q",), ("q", "cpu")]))
def test_whatever_stands_in_a_file_is_a_recording_or_a_plain_refusal(text: str, signals: tuple[str, ...]) -> None:
    times: Sequence[int]
    try:
        times = parse_csv(text, "load.csv", signals).times
    except Misconfigured as refusal:
        told, times = str(refusal), []
    else:
        told = "load.csv"
    assert "load.csv" in told
    assert all(later > earlier for earlier, later in pairwise(times))


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    ("text", "signals", "line", "words"),
    [
        ("when,q\n1,2\n", ["q"], 1, "such as time,q"),
        ("time,q,q\n1,2,3\n", ["q"], 1, "stands here twice"),
        ("time,value\n1,2\n", ["q", "cpu"], 1, "no column q"),
        ("time,q\n1790000000000,5\n", ["q"], 2, "milliseconds?"),
        ("time,q\n1,5\n1,6\n", ["q"], 3, "not later than the line before"),
        ("time,q\n2,5\n1,6\n", ["q"], 3, "not later than the line before"),
        ("time,q\n1,null\n", ["q"], 2, "empty cell says that nothing was measured"),
        ("time,q\n1,1e999\n", ["q"], 2, "is no number"),
        ("time,q\n1969-12-31T23:59:59Z,1\n", ["q"], 2, "before 1970"),
        ('time,q\n1,"5\n', ["q"], 2, "is no CSV"),
        ("time,q,replicas\n1,5,2.5\n", ["q"], 2, "no count of replicas"),
    ],
)
def test_refusals_say_where_and_why(text: str, signals: list[str], line: int, words: str) -> None:
    [(where, why)] = problems(text, *signals)
    assert (where, words in why) == (line, True), why


@pytest.mark.req("ASC-14")
def test_several_columns_a_plain_value_column_and_no_header_at_all() -> None:
    wide = parse_csv("Time,other,cpu,q,Replicas\n10,x,0.5,7,3\n25,y,,8,4\n", "load.csv", ["q", "cpu"])
    assert (list(wide.values["q"]), wide.values["cpu"][0], wide.replicas) == ([7, 8], 0.5, [3, 4])
    assert math.isnan(wide.values["cpu"][1])
    for text in ("timestamp,value\n10,7\n25,8\n", "10,7\n25,8\n", "\n10,7\n\n25,8\n"):
        assert list(parse_csv(text, "load.csv", ["q"]).values["q"]) == [7, 8]
    odd = parse_csv("time,q\n10,NaN\n25,-1\n40,+Inf\n", "load.csv", ["q"])
    assert [str(one) for one in odd.values["q"]] == ["nan", "-1.0", "inf"]  # what a source said; judged later


@pytest.mark.req("ASC-14")
def test_files_that_cannot_be_read_are_told_as_such(tmp_path: Path) -> None:
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"time,q\n1,2\n2,\xff\n")
    for path, words in ((tmp_path / "none.csv", "does not exist"), (tmp_path, "no regular file"), (latin, ":3  byte")):
        with pytest.raises(Misconfigured, match="cannot be read") as caught:
            read_csv(path, ["q"])
        assert words in str(caught.value)
    good = tmp_path / "good.csv"
    good.write_bytes("\ufefftime,q\r\n1,2\r\n3,4\r\n".encode())
    found: Recording = read_csv(good, ["q"])
    assert (list(found.times), list(found.values["q"])) == ([1_000_000, 3_000_000], [2, 4])
