"""Sessions of browsers: unguessable, bounded in number and time, and gone when they end."""

from __future__ import annotations

import pytest

from fleetwarden.testing import FakeClock
from fleetwarden.web.sessions import LIFETIME_S, MESSAGE_S, SESSIONS_MAX, Sessions


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_session_is_found_by_its_id_and_by_no_other(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    first, second = sessions.open("sha256:a"), sessions.open("sha256:b")
    found = sessions.find(first)
    assert found is not None
    assert found.token_digest == "sha256:a"
    assert first != second
    for other in ("", "x", first[:-1], first.upper(), found.form_secret):
        assert sessions.find(other) is None


def test_ids_are_long_and_the_form_secret_is_another(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    session_id = sessions.open("sha256:a")
    session = sessions.find(session_id)
    assert session is not None
    assert len(session_id) > 40
    assert session.form_secret != session_id
    assert session.sent_form(session.form_secret)
    for other in ("", session_id, session.form_secret + "x", "ü"):
        assert not session.sent_form(other)


def test_a_session_lasts_for_its_lifetime_and_not_longer(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    session_id = sessions.open("sha256:a")
    clock.advance(LIFETIME_S - 1)
    assert sessions.find(session_id) is not None
    clock.advance(1)
    assert sessions.find(session_id) is None


def test_a_wall_clock_that_is_set_back_gives_no_session_more_time(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    session_id = sessions.open("sha256:a")
    clock.step(-LIFETIME_S)
    clock.advance(LIFETIME_S)
    assert sessions.find(session_id) is None


def test_an_ended_session_is_gone_and_ending_it_again_is_fine(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    session_id = sessions.open("sha256:a")
    sessions.end(session_id)
    sessions.end(session_id)
    assert sessions.find(session_id) is None


def test_past_the_bound_the_oldest_ends(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    opened = [sessions.open("sha256:a") for _ in range(SESSIONS_MAX + 1)]
    assert sessions.find(opened[0]) is None
    assert all(sessions.find(one) is not None for one in opened[1:])


def test_a_message_is_shown_for_a_while(clock: FakeClock) -> None:
    sessions = Sessions(clock)
    session = sessions.find(sessions.open("sha256:a"))
    assert session is not None
    assert sessions.message_of(session) is None
    sessions.tell(session, "A-1 is granted", good=True)
    clock.advance(MESSAGE_S - 1)
    message = sessions.message_of(session)
    assert message is not None
    assert message.text == "A-1 is granted"
    clock.advance(1)
    assert sessions.message_of(session) is None
