"""The page of a backtest: whole, to be read without a network, and nobody's text is markup in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from random import Random
from xml.etree import ElementTree as ET

import pytest

from fleetwarden.lab.comparison import Comparison, compare
from fleetwarden.lab.picture import TITLES_MAX, picture
from fleetwarden.lab.report import page, span_words
from tests.unit.lab.test_backtest import block, ticks


class Strict(HTMLParser):
    """Every element that is opened is closed, in order; attributes are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def comparison(count: int = 200, name: str = "declared", **fields: object) -> Comparison:
    chance = Random(1)
    values = [None if 60 <= n < 80 else chance.choice([20, 50, 90, 130]) for n in range(count)]
    blocks = [(name, block(cooldown_s=0, **fields)), ("slow", block(cooldown_s=600, scale_down_step=1))]
    return compare("shop", "load.csv", ticks(values), blocks, {}, notes=["a <b>note</b>"])


@pytest.mark.req("ASC-14")
def test_the_page_is_whole_and_asks_for_nothing_from_elsewhere() -> None:
    text = page(comparison(name="<script>alert(1)</script>"))
    read = Strict()
    read.feed(text)
    assert read.open == []
    tags = {tag for tag, _ in read.seen}
    assert "svg" in tags
    assert not tags & {"script", "link", "img", "iframe", "object", "b"}
    assert not re.search(r"https?:|url\(|@import|src=", text)
    assert "a <b>note</b>" in "".join(read.text)
    for words in ("replica-hours", "under-provisioned", "reversals", "slow", "load.csv", "20 of 200 without a sample"):
        assert words in "".join(read.text)
    assert "cost" not in "".join(read.text)  # no block names a price


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize("count", [2, 200, 5_000])
def test_the_picture_shows_need_replicas_gaps_and_actions(count: int) -> None:
    found = comparison(max(count, 2)) if count > 80 else compare(
        "shop", "load.csv", ticks([20, 90]), [("declared", block())], {}
    )  # fmt: skip
    name, run = found.runs[0]
    drawn = ET.fromstring(picture(name, found.load, run, 14))
    classes = [one.get("class") for one in drawn.iter()]
    assert {"need", "count", "up"} <= set(classes)
    assert ("blind" in classes) == (count >= 200)
    assert str(len(run.actions)) in (drawn.get("aria-label") or "")
    marks = classes.count("up") + classes.count("down")
    assert marks == (len(run.actions) if len(run.actions) <= TITLES_MAX else 2)
    inside = re.compile(r"[MHVL]?([0-9.]+) ([0-9.]+)")
    for one in drawn.iter():
        for x, y in inside.findall(one.get("d") or ""):
            assert 0 <= float(x) <= 960
            assert 0 <= float(y) <= 270


def test_spans_are_told_in_the_unit_that_fits() -> None:
    assert [span_words(one) for one in (0, 119, 3600, 10_800, 400_000)] == ["0 s", "119 s", "60 min", "3.0 h", "4.6 d"]
