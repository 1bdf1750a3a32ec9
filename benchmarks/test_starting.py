"""What a start costs: `--help`, the memory that each import of a plane takes, and a whole plane that idles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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


IDLE_S = 20  # shorter than the reconciler's own interval (120 s): looks, leases and waiting
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB


@pytest.mark.benchmark(group="an idle plane")
def test_an_idle_plane(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Resident MiB of `up` after a while with one service that nothing happens to, and the processor time of idling."""
    (tmp_path / "fleet.yml").write_text(
        "version: 1\nservices:\n  - name: web\n    process: {command: [sleep, '600']}\n"
    )
    (tmp_path / "policy.yml").write_text("version: 1\nrules:\n  - {kind: '*_service', target: '*', tier: auto}\n")
    environ = {"FLEET_DATA_DIR": str(tmp_path / "data"), "FLEET_RECONCILER": "1", "FLEET_ACTUATOR": "process"}
    up = [sys.executable, "-m", "fleetwarden", "up", "--port", "0", "--config", str(tmp_path)]
    with subprocess.Popen(up, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True) as plane:
        assert plane.stdout is not None
        assert any("http://" in line for line in plane.stdout)

        def idle() -> float:
            before = cpu_s(plane.pid)
            time.sleep(IDLE_S)
            return cpu_s(plane.pid) - before

        try:
            spent = benchmark.pedantic(idle, rounds=1)
            benchmark.extra_info["resident MiB"] = round(resident_mib(plane.pid), 1)
            benchmark.extra_info["share of a core, %"] = round(spent / IDLE_S * 100, 2)
            print(f"\n{benchmark.extra_info}")
            assert resident_mib(plane.pid) > 0
        finally:
            subprocess.run([*up[:3], "--config", str(tmp_path), "down", "--services"],
                           env={**os.environ, **environ}, capture_output=True, check=False)  # fmt: skip
            plane.send_signal(signal.SIGINT)
            assert plane.stdout.read()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
