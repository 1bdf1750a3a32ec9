"""The bench that every test of the suite is asked of, one for each actuator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.actuation.benches import BENCHES, Bench


@pytest.fixture(params=list(BENCHES))
def bench(request, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, BENCHES[request.param])
    yield made
    made.close()
