"""What every suite shares: the two depths of generated tests, and real components that may be missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from scripts.components import COMPONENTS, in_ci

if TYPE_CHECKING:
    from tests.postgresql import Cluster

DEPTH = os.environ.get("FLEETWARDEN_TEST_DEPTH", "quick")

# No deadline and no too_slow: nothing here is judged by the wall clock, the machine may be busy. Runs repeat exactly,
# so that a red run can be had again; `explore` looks for new examples and prints how to replay what it finds.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=True)
settings.register_profile("quick", _UNHURRIED, max_examples=50)
settings.register_profile("full", _UNHURRIED, max_examples=150)
settings.register_profile("explore", _UNHURRIED, max_examples=2_000, derandomize=False)
settings.load_profile(DEPTH)

_LACKING = "needs "


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs what is missing is skipped with the way to get it; in CI it fails instead."""
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            component = COMPONENTS[name]
            if component.find() is None:
                reason = f"{_LACKING}{name}: {component.how_to_get}"
                if in_ci():
                    pytest.fail(reason, pytrace=False)
                pytest.skip(reason)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """A private PostgreSQL server, started once per worker; mark its tests `@pytest.mark.needs("postgresql")`."""
    from tests.postgresql import cluster

    with cluster() as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were skipped for want of a component, and checks that failed before the tests began."""
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, reason = reason.partition(_LACKING)
        if found:
            skipped.setdefault(reason, []).append(report.nodeid)
    for reason, nodeids in skipped.items():
        terminalreporter.section(f"{len(nodeids)} skipped, {_LACKING}{reason}")
        for nodeid in nodeids:
            terminalreporter.write_line(nodeid)
    failed = os.environ.get("FLEETWARDEN_FAILED_CHECKS", "").split()
    if failed:
        terminalreporter.section("failed before the tests began (see above)", red=True)
        terminalreporter.write_line(", ".join(failed))
