"""The auditor sees: each fence that is taken away is missed within a few histories, and by nothing else's fault.

How many histories it took is printed (`-rP` shows it); the bound leaves room for histories to change.
"""

from __future__ import annotations

import pytest

from tests.simulation.history import run
from tests.simulation.plan import draw
from tests.simulation.planted import FAULTS
from tests.simulation.planted_intents import INTENTS
from tests.simulation.planted_wishes import WISHES
from tests.simulation.telling import told

HISTORIES_MAX = 400


@pytest.mark.req(
    "PRO-1", "PRO-2", "PRO-3", "PRO-5", "PRO-6", "PRO-7", "PRO-8", "PRO-9", "PRO-10", "PRO-12", "PRO-13", "PRO-14",
    "PRO-15", "AUT-4", "AUT-6", "AUT-11", "AUT-13", "AUT-18",
)  # fmt: skip
@pytest.mark.parametrize("fault", [*FAULTS, *WISHES, *INTENTS], ids=lambda fault: fault.__name__)
def test_the_missing_fence_is_caught(fault) -> None:
    for seed in range(HISTORIES_MAX):
        verdict = run(seed, fault())
        if verdict.findings:
            break
    else:
        pytest.fail(f"{HISTORIES_MAX} histories did not show that {fault.name}")
    print(f"{fault.name}: caught by history {seed + 1}: {verdict.findings[0]}")
    same_weather = run(seed, plan=fault().plan(draw(seed)))
    assert not same_weather.findings, told(same_weather)
