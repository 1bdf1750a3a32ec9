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


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all requests of a module that are refused and therefore change nothing."""
    made = World(tmp_path_factory.mktemp("refusing"))
    yield made
    made.close()
