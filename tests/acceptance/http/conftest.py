from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.http.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One service `web` with two replicas, under a policy that asks a person about everything."""
    made = World(tmp_path)
    yield made
    made.close()
