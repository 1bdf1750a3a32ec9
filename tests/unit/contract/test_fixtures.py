"""Records of schema_version "1" as they were written once: every later release loads them to the same byte.

A change that breaks one of these files needs a new schema_version, not a new file in its place.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fleetwarden.domain.actions import LeaseFence, Record
from fleetwarden.domain.contract import lifecycle, records
from fleetwarden.domain.identifiers import canonical_json

FIXTURES = Path(__file__).parent / "fixtures" / "schema-1.json"
TYPES: dict[str, type[Record]] = {
    one.__name__: one
    for one in (
        LeaseFence,
        lifecycle.ObservedOutcome,
        lifecycle.ScaleDecision,
        lifecycle.ScaleExecution,
        lifecycle.ScaleIntent,
        lifecycle.SignalSummaryRef,
        records.ControllerRegistration,
        records.FailureDomain,
        records.ResourcePool,
        records.ScaleUnit,
        records.WorkloadClass,
    )
}
KEPT = msgspec.json.decode(FIXTURES.read_bytes())


@pytest.mark.req("CON-1")
@pytest.mark.parametrize("name", sorted(TYPES))
def test_old_records_still_load_to_the_same_bytes(name: str) -> None:
    assert KEPT[name], f"no fixture of {name}"
    for body in KEPT[name]:
        record = msgspec.convert(body, TYPES[name])
        assert canonical_json(record) == canonical_json(body)


@pytest.mark.req("CON-1")
@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_field_that_version_1_does_not_have_is_refused(name: str) -> None:
    for body in KEPT[name]:
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert({**body, "added_later": 1}, TYPES[name])
