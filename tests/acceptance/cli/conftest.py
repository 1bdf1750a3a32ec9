from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli.world import World, world_in


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two services of sleeping processes under a policy that is auto for them; no plane runs yet."""
    with world_in(tmp_path) as made:
        yield made
