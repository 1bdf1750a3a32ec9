"""Bodies that `events send` makes are what their senders would send."""

from __future__ import annotations

import json

import pytest

from fleetwarden.cli.events import SHAPES, _made
from fleetwarden.events import normalise


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_made_body_is_read_as_its_shape(shape: str) -> None:
    told = {"service": "web", "name": "ServiceDown", "severity": "critical", "summary": "web is down"}
    [begun] = normalise(json.dumps(_made(shape, told, {"zone": "a"}, resolved=False)).encode())
    [over] = normalise(json.dumps(_made(shape, told, {"zone": "a"}, resolved=True)).encode())
    assert (begun.source, begun.subject, begun.class_, begun.phase) == (shape, "web", "down", "firing")
    assert (begun.severity, over.severity) == ("critical", "info")
    assert (over.phase, over.alert) == ("resolved", begun.alert)
    assert begun.starts_at is not None
