"""Parts that a deployment puts in by import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetwarden import wiring
from fleetwarden.app.injection import injected
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.testing import FakeClock, FakeSubstrate


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    wiring.reset()


@pytest.mark.req("ACT-2", "OBS-2")
def test_what_is_set_is_there_for_the_next_plane_and_replaces_its_predecessor() -> None:
    first, second = FakeSubstrate(FakeClock()), FakeSubstrate(FakeClock())
    for one in (first, second):
        wiring.set_fleet_actuator(one)
        wiring.set_fleet_observer(one)
    put = injected()
    assert put.actuators == {"": second}
    assert put.observers == [second]
    wiring.reset()
    assert put.observers == [second]  # a plane that was built keeps what it has
    assert injected().actuators == {}


@pytest.mark.req("ACT-1", "OBS-1")
def test_a_part_that_lacks_something_is_refused_by_name() -> None:
    with pytest.raises(Misconfigured, match="observe"):
        wiring.set_fleet_observer(object())  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="actuate"):
        wiring.set_fleet_actuator(object())  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="notify"):
        wiring.set_default_notifier(object())  # type: ignore[arg-type]
