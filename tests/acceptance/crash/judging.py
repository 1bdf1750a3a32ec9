"""What a test of the matrix says when the auditor has something to say."""

from __future__ import annotations

import pytest

from tests.acceptance.crash.audit import audit, gather
from tests.acceptance.crash.scenarios import Scenario
from tests.acceptance.crash.world import World

__all__ = ["checked"]


def checked(world: World, scenario: Scenario) -> None:
    """The auditor has nothing to say."""
    found = audit(gather(world, scenario.declared, **scenario.facts))
    if found:
        passed = "\n".join(" ".join(world.trace(run + 1)) for run in range(world.runs))
        pytest.fail("\n".join([*found, "", "the planes passed:", passed, "", world.log()]), pytrace=False)
