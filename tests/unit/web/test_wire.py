"""What is written in one turn of the loop goes out together, in order, and never later than the next turn."""

from __future__ import annotations

import asyncio

import pytest

from fleetwarden.web.wire import Joined


class Calls:
    """A transport that remembers what it was asked."""

    def __init__(self) -> None:
        self.made: list[object] = []

    def write(self, data: bytes) -> None:
        self.made.append(data)

    def close(self) -> None:
        self.made.append("close")

    def set_protocol(self, protocol: object) -> None:
        self.made.append("protocol")

    def is_closing(self) -> bool:
        return False


def written(*steps: object) -> list[object]:
    """What a transport is asked in one turn of the loop with these steps, and in the one after it."""

    async def turn() -> list[object]:
        calls = Calls()
        joined = Joined(calls, asyncio.get_running_loop())  # type: ignore[arg-type]
        for step in steps:
            if isinstance(step, bytes):
                joined.write(step)
            else:
                getattr(joined, str(step))(*((None,) if step == "set_protocol" else ()))
        calls.made.append("turn")
        await asyncio.sleep(0)
        assert not joined.is_closing()
        return calls.made

    return asyncio.run(turn())


def test_a_head_and_its_body_go_out_together() -> None:
    assert written(b"head ", b"body") == [b"head body", "turn"]


def test_a_head_alone_goes_out_with_the_next_turn() -> None:
    assert written(b"head") == ["turn", b"head"]


def test_the_answers_of_one_turn_keep_their_order() -> None:
    assert written(b"1", b"2", b"3") == [b"12", "turn", b"3"]


@pytest.mark.parametrize(("step", "told"), [("close", "close"), ("set_protocol", "protocol")])
def test_what_ends_or_takes_over_comes_behind_what_was_written(step: str, told: str) -> None:
    assert written(b"1", step) == [b"1", told, "turn"]
