"""What a start costs: `--help`, and the memory that each import of a plane takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

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


@pytest.mark.benchmark(group="start")
def test_help(benchmark: BenchmarkFixture) -> None:
    def run() -> int:
        return subprocess.run(
            [sys.executable, "-m", "fleetwarden", "--help"], capture_output=True, check=True
        ).returncode

    assert benchmark.pedantic(run, rounds=5, warmup_rounds=1) == 0


@pytest.mark.benchmark(group="start")
def test_python_alone(benchmark: BenchmarkFixture) -> None:
    """What `--help` is beside."""

    def run() -> int:
        return subprocess.run([sys.executable, "-c", ""], capture_output=True, check=True).returncode

    assert benchmark.pedantic(run, rounds=5, warmup_rounds=1) == 0


@pytest.mark.benchmark(group="start")
def test_imports_of_a_plane(benchmark: BenchmarkFixture) -> None:
    """Resident MiB after each import, in this order; see `extra_info`, and the printed table with `-s`."""

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", MEASURE, *IMPORTS], capture_output=True, check=True, text=True
        ).stdout

    said = benchmark.pedantic(run, rounds=1)
    print(f"\nresident MiB\n{said}")
    benchmark.extra_info["resident_mib"] = said.splitlines()
    assert said.splitlines()[-1].endswith("all")
