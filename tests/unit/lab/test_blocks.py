"""Which blocks a backtest plays: the declared one, changes laid over it, and whole ones from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.lab.blocks import alternative, declared_block, declared_signals

REGISTRY = """\
version: 1
services:
  - name: shop
    scaling: {min: 1, max: 6, signal: q, target: 100, cooldown_s: 120}
  - name: plain
  - name: broken
    scaling: {min: 1, max: 6, signal: q, targt: 100}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yml").write_text(REGISTRY)
    return tmp_path


def declared(folder: Path, service: str = "shop") -> ScalingBlock | None:
    return declared_block(folder / "fleet.yml", folder / "desired-state.yml", folder, service)


@pytest.mark.req("ASC-14")
def test_the_declared_block_is_that_of_both_files(folder: Path) -> None:
    found = declared(folder)
    assert found is not None
    assert (found.max, found.cooldown_up_s) == (6, 120)
    assert declared(folder, "plain") is None
    (folder / "desired-state.yml").write_text(
        "version: 1\nservices:\n  - {name: shop, scaling: {max: 9, signal: q, target: 50}}\n"
    )
    again = declared(folder)
    assert again is not None
    assert again.max == 9


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    ("service", "words"),
    [("shp", "did you mean 'shop'"), ("other-thing", "shop have a scaling block"), ("broken", ":7  scaling.targt")],
)
def test_a_service_that_cannot_be_played_is_told_with_its_place(folder: Path, service: str, words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        declared(folder, service)
    assert words in str(caught.value)


@pytest.mark.req("ASC-14")
def test_changes_are_laid_over_the_declared_block_and_null_takes_a_key_out(folder: Path) -> None:
    own = declared(folder)
    name, found = alternative("{cooldown_s: 60, scale_down_step: '50%'}", "shop", own)
    assert (found.cooldown_up_s, found.max, found.down_step.percent) == (60, 6, True)
    assert name == "{cooldown_s: 60, scale_down_step: '50%'}"
    _, several = alternative("{signal: null, target: null, signals: [{signal: a, target: 5}]}", "shop", own)
    assert [one.signal for one in several.signals] == ["a"]
    _, alone = alternative("{max: 3, signal: q, target: 7}", "plain", None)
    assert alone.max == 3
    with pytest.raises(Misconfigured, match="cannot stand beside behavior"):
        alternative("{behavior: {}, deadband: 0.1}", "shop", own)


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    "text",
    [
        "{max: 8, signal: q, target: 10}",
        "scaling: {max: 8, signal: q, target: 10}",
        "version: 1\nservices:\n  - {name: shop, scaling: {max: 8, signal: q, target: 10}}\n",
    ],
)
def test_a_file_is_a_block_or_holds_one(folder: Path, text: str) -> None:
    file = folder / "other.yml"
    file.write_text(text)
    name, found = alternative(str(file), "shop", declared(folder))
    assert (name, found.max, found.cooldown_up_s) == ("other.yml", 8, 300)


@pytest.mark.req("ASC-14")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max: 8\nsignal: q\ntarget: -1\n", "other.yml:3  scaling.target"),
        ("- a\n", "is no mapping"),
        ("services: [{name: shop}]", "has no scaling block"),
        ("services: [{name: mail}]", "declares no service 'shop'"),
        ("{max: ", "other.yml:1"),
    ],
)
def test_a_file_that_is_none_is_told_with_its_line(folder: Path, text: str, words: str) -> None:
    file = folder / "other.yml"
    file.write_text(text)
    with pytest.raises(Misconfigured) as caught:
        alternative(str(file), "shop", None)
    assert words in str(caught.value)


def test_signals_of_the_folder_are_read_and_may_be_absent(folder: Path) -> None:
    assert declared_signals(folder, "").definitions == {}
    (folder / "signals.yml").write_text(
        "version: 1\nsignals:\n  q: {kind: queue, query: jobs, by: service, unit: items, aggregation: fleet_total}\n"
    )
    found = declared_signals(folder, "http://127.0.0.1:9").definition("shop", "q")
    assert found is not None
    assert found.by == "service"
