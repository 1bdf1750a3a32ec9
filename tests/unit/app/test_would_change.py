"""What would let a count change, in words."""

from __future__ import annotations

import pytest

from fleetwarden.app.explaining import _scaling_would_change
from tests.contract.pipeline.scaling import scaled


@pytest.mark.req("ASC-12")
@pytest.mark.parametrize(
    ("streak", "samples", "told"),
    [
        ("down", 1, "2 more samples in a row say the same"),
        ("down", 2, "1 more sample in a row say the same"),
        ("up", 1, "4 more samples in a row say the same"),
    ],
)
@pytest.mark.parametrize("needed", [0, 3])  # what another plane stored does not say how many are needed
def test_samples_that_are_lacking_are_counted_by_the_block(streak: str, samples: int, told: str, needed: int) -> None:
    service = scaled(scale_up_stabilization_samples=5)
    item = {"scaling": {"code": "stabilizing", "streak": streak, "samples": samples, "needed": needed, "until": None}}
    assert _scaling_would_change(item, service) == [told]
