"""`fleetwarden backtest` as a person has it: a file or a real Prometheus in, figures, JSON and a page out."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import pytest

from tests.acceptance.cli.world import World, eventually
from tests.prometheus import Exporter, prometheus

REGISTRY = """\
version: 1
services:
  - name: shop
    process: {command: [sleep, "1000"]}
    scaling: {min: 1, max: 8, signal: jobs_waiting, target: 100, scale_up_step: 8, cooldown_s: 120}
  - name: plain
    process: {command: [sleep, "1000"]}
"""
START = 1_790_000_000


def load(path: Path) -> Path:
    """A quiet hour, a busy one with a hole of ten minutes in it, and a quiet one; a row a minute."""
    kept = [minute for minute in range(180) if not 90 <= minute < 100]
    rows = [f"{START + 60 * minute},{520 if 60 <= minute < 120 else 90}" for minute in kept]
    path.write_text("\n".join(["time,jobs_waiting", *rows]) + "\n", encoding="utf-8")
    return path


def answers(address: str, value: str) -> None:
    """Wait until the server has scraped that value."""

    def scraped() -> bool:
        with urllib.request.urlopen(
            f"{address}/api/v1/query?query=jobs%7Bservice%3D%22shop%22%7D", timeout=10
        ) as answer:
            return f'"{value}"' in answer.read().decode()

    eventually(scraped, f"no {value} was scraped")


@pytest.fixture
def shop(world: World) -> World:
    world.write("fleet.yml", REGISTRY)
    return world


@pytest.mark.req("ASC-14", "RUN-5")
def test_a_recorded_load_is_played_against_two_blocks(shop: World) -> None:
    file = load(shop.folder / "load.csv")
    page = shop.folder / "out.html"
    words = ["backtest", "shop", "--signals", str(file), "--compare", "{cooldown_s: 600}"]
    ran = shop.run(*words, "--html", str(page))
    assert ran.code == 0, ran
    assert "180 ticks, one every 60 s, 10 without a sample" in ran.out
    for told in ("replica-hours", "under-provisioned", "reversals", "1 → 6", "6 → 5", "{cooldown_s: 600}", "needed"):
        assert told in ran.out
    assert "policy, approvals, freezes and quotas are not played" in ran.out
    assert page.read_text(encoding="utf-8").count("<svg") == 2

    body = shop.json(*words)
    declared, slow = body["blocks"]
    assert (declared["name"], slow["name"]) == ("declared", "{cooldown_s: 600}")
    assert declared["actions"][0] == {"at": "2026-09-21T15:13:20.000000Z", "from": 1, "to": 6, "reason": "scale_up"}
    assert [one["to"] for one in declared["actions"]] == [6, 5, 4, 3, 2, 1]  # one at a time, as declared
    assert declared["under_provisioned_s"] == 0
    assert declared["without_sample_s"] == 600  # and the count was held meanwhile
    assert declared["reversals"] == slow["reversals"] == 1
    assert slow["replica_hours"] > declared["replica_hours"] > 0
    assert [one["replicas"] for one in declared["timeline"]] == [1, 6, 5, 4, 3, 2, 1]
    assert body["recording"]["ticks_without_sample"] == 10


@pytest.mark.req("ASC-14")
def test_what_is_wrong_is_named_and_nothing_is_written(shop: World) -> None:
    bad = shop.folder / "bad.csv"
    bad.write_text("time,jobs_waiting\n1790000000,5\n1790000060,many\n1790000030,7\n", encoding="utf-8")
    page = shop.folder / "out.html"
    ran = shop.run("backtest", "shop", "--signals", str(bad), "--html", str(page))
    assert ran.code == 2
    assert "bad.csv:3" in ran.err
    assert "bad.csv:4" in ran.err
    assert not page.exists()
    good = str(load(shop.folder / "load.csv"))
    for words, told in (
        (["shp", "--signals", good], "did you mean 'shop'"),
        (["plain", "--signals", good], "has no scaling block"),
        (["shop", "--signals", good, "--compare", "{targt: 5}"], "did you mean 'target'"),
    ):
        ran = shop.run("backtest", *words)
        assert (ran.code, told in ran.err) == (2, True), (words, ran)
    ran = shop.run(
        "backtest", "shop", "--prometheus", "http://127.0.0.1:1", "--query", "up", "--start", "1790000000", "--end",
        "1790000600",
    )  # fmt: skip
    assert (ran.code, "cannot be asked" in ran.err) == (1, True), ran


@pytest.mark.needs("prometheus")
@pytest.mark.req("ASC-14", "SGP-7")
def test_a_range_of_a_real_prometheus_is_played(shop: World, tmp_path: Path) -> None:
    shop.write(
        "signals.yml",
        "version: 1\nsignals:\n  jobs_waiting: {source: main, kind: queue, unit: items, aggregation: fleet_total,\n"
        '    query: "sum by (service) (jobs)", by: service, age_of: jobs}\n'
        "sources: {main: {url: 'http://127.0.0.1:9'}}\n",
    )
    exporter = Exporter()
    exporter.values = {("jobs", "shop"): 90, ("jobs", "other"): 5_000}
    folder = tmp_path / "prometheus"
    folder.mkdir()
    try:
        with prometheus(folder, exporter.port) as address:
            began = time.time()
            answers(address, "90")
            exporter.values = {("jobs", "shop"): 320, ("jobs", "other"): 5_000}
            answers(address, "320")
            time.sleep(1.5)  # one more step of the range
            words = ["backtest", "shop", "--prometheus", address, "--start", f"{began:.0f}", "--step", "1s"]
            query = ["--query", 'sum by (service) (jobs{service="shop"})']
            found = json.loads(shop.run(*words, *query, "--json").out)
            shop.write("signals.yml", (shop.config / "signals.yml").read_text().replace("http://127.0.0.1:9", address))
            declared = json.loads(shop.run(*words, "--json").out)
    finally:
        exporter.close()
    for body in (found, declared):
        [block] = body["blocks"]
        assert [one["to"] for one in block["actions"]] == [4]  # 320 jobs, and nothing of the other service
        assert body["recording"]["needed_replicas"] == {"lowest": 1, "highest": 4}
    assert any("nothing says when" in one for one in found["notes"])
    assert not any("nothing says when" in one for one in declared["notes"])


@pytest.mark.req("ORC-6", "RUN-5")
def test_the_lab_shows_scaling_step_by_step_and_leaves_nothing_behind(shop: World) -> None:
    before = sorted(shop.folder.rglob("*"))
    ran = shop.run("lab")
    assert (ran.code, ran.err) == (0, "")
    assert "max says 4  →  4" in ran.out
    assert "steps as expected" in ran.out
    assert sorted(shop.folder.rglob("*")) == before
