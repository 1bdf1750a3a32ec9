"""The machine's own clock and ids keep the promises of their ports."""

from __future__ import annotations

import threading
import time

from fleetwarden.adapters.system import SystemClock, SystemIds


def test_now_is_in_microseconds_of_this_machine() -> None:
    before = time.time_ns() // 1000
    assert before <= SystemClock().now() <= time.time_ns() // 1000


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_waiting_ends_with_the_event_or_with_the_time() -> None:
    clock, event = SystemClock(), threading.Event()
    assert not clock.wait(event, 0.0)
    assert not clock.wait(event, -5.0)
    event.set()
    assert clock.wait(event, 3600.0)
    assert clock.wait(event, 1e15)


def test_ids_are_sixteen_hex_digits_and_differ() -> None:
    ids = SystemIds()
    made = {ids.new() for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in made)


def test_fractions_lie_from_0_up_to_but_not_1() -> None:
    ids = SystemIds()
    drawn = [ids.fraction() for _ in range(1000)]
    assert all(0 <= one < 1 for one in drawn)
    assert len(set(drawn)) > 990
