"""How `up` prepares its process before anything of the plane runs."""

from __future__ import annotations

import sys

import pytest

from fleetwarden.cli import serving
from tests.unit.cli.conftest import Shell


def test_the_threads_of_a_plane_take_turns_more_often_than_python_lets_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, met = sys.getswitchinterval(), list[float]()
    monkeypatch.setattr(serving, "_run", lambda *_: met.append(sys.getswitchinterval()))
    shell("init")
    try:
        assert shell("up").code == 0
    finally:
        sys.setswitchinterval(before)
    assert met == [pytest.approx(serving.SWITCH_S)]
    assert met[0] < before
