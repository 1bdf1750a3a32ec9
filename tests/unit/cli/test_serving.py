"""How `up` sets its process up."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from fleetwarden.app import bootstrap
from fleetwarden.cli import serving
from fleetwarden.domain.errors import Misconfigured


def test_a_plane_s_threads_take_short_turns_before_anything_of_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, found = sys.getswitchinterval(), list[float]()

    def build(_: Any) -> None:
        found.append(sys.getswitchinterval())
        raise Misconfigured("no plane is needed here")

    monkeypatch.setattr(bootstrap, "Plane", build)
    nothing: Any = None
    try:
        with pytest.raises(Misconfigured):
            serving._run(nothing, nothing, nothing)
    finally:
        sys.setswitchinterval(usual)
    assert found == [pytest.approx(serving.TURN_S)]
    assert usual > serving.TURN_S
