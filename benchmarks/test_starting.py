"""What a start costs: `--help`, the memory that each import of a plane takes, and a whole idle plane.

Everything runs from compiled modules, as an installed package does, wherever this process was told to keep none.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.app.running import running_plane
from fleetwarden.app.settings import load_settings

IMPORTS = ["msgspec", "sqlalchemy", "pydantic_settings", "fastapi", "uvicorn", "psutil", "yaml", "structlog", "httpx2",
           "prometheus_client", "alembic", "fleetwarden.app.bootstrap", "fleetwarden.web.application"]  # fmt: skip
MEASURE = """
import importlib, os, sys
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
before = rss()
print(f"{before:.1f} python")
for name in sys.argv[1:]:
    importlib.import_module(name)
    after = rss()
    print(f"{after - before:.1f} {name}")
    before = after
print(f"{before:.1f} all")
"""
IDLE_S = 30.0  # the passes of an idle plane come round a few times
START_S_MAX = 120.0


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment in which Python keeps what it compiles."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}


def processor_s(command: list[str], environ: Mapping[str, str]) -> float:
    """What one run of a command takes of a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True, env=dict(environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.benchmark(group="start")
def test_help(benchmark: BenchmarkFixture, compiled: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "fleetwarden", "--help"]
    took: list[float] = []
    benchmark.pedantic(lambda: took.append(processor_s(command, compiled)), rounds=9, warmup_rounds=1)
    alone = [processor_s([sys.executable, "-c", ""], compiled) for _ in range(9)]
    benchmark.extra_info["processor s, median"] = round(sorted(took[1:])[4], 3)
    benchmark.extra_info["the quickest"] = round(min(took), 3)
    benchmark.extra_info["an empty Python, the quickest"] = round(min(alone), 3)
    print(f"\n{benchmark.extra_info}")
    assert len(took) == 10


@pytest.mark.benchmark(group="start")
def test_imports_of_a_plane(benchmark: BenchmarkFixture, compiled: Mapping[str, str]) -> None:
    """Resident MiB after each import, in this order; see `extra_info`, and the printed table with `-s`."""

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", MEASURE, *IMPORTS], capture_output=True, check=True, text=True, env=dict(compiled)
        ).stdout

    run()  # compiles
    said = benchmark.pedantic(run, rounds=1)
    print(f"\nresident MiB\n{said}")
    benchmark.extra_info["resident_mib"] = said.splitlines()
    assert said.splitlines()[-1].endswith("all")


@pytest.mark.benchmark(group="start")
def test_an_idle_plane(benchmark: BenchmarkFixture, compiled: Mapping[str, str], tmp_path: Path) -> None:
    """`up` on SQLite with nothing declared, after half a minute and after its status was asked for over HTTP."""
    (tmp_path / "fleet.yml").write_text("version: 1\nservices: []\n")
    environ = {**compiled, "FLEET_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "fleetwarden"]
    at = ["--config", str(tmp_path)]
    settings = load_settings(tmp_path, environ)
    subprocess.run([*command, "--help"], check=True, capture_output=True, env=environ)
    patience, figures = Event(), dict[str, float]()
    with (tmp_path / "said").open("wb") as said:
        plane = subprocess.Popen([*command, "up", *at, "--port", "0"], stdout=said, stderr=said, env=environ)
    try:
        until = monotonic() + START_S_MAX
        while (running := running_plane(settings)) is None or not running.url:
            assert plane.poll() is None, (tmp_path / "said").read_text()
            assert monotonic() < until
            patience.wait(0.2)
        figures["resident MiB, started"] = resident_mib(plane.pid)
        patience.wait(IDLE_S)
        figures["resident MiB, idle"] = resident_mib(plane.pid)
        benchmark.pedantic(
            lambda: subprocess.run([*command, "status", *at], capture_output=True, check=False, env=environ), rounds=1
        )
        figures["resident MiB, after it was asked"] = resident_mib(plane.pid)
    finally:
        plane.terminate()
        plane.wait(60)
    benchmark.extra_info.update(figures)
    print(f"\n{figures}")
    assert figures["resident MiB, idle"] > 0


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
