"""What belongs into one message, and when it is due."""

from __future__ import annotations

import msgspec
import pytest

from fleetwarden.controllers.delivering import message_of
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.messages import LINES_MAX, PER_WINDOW_MAX, WINDOW, Delivery, Told, fold, retry_after

NOW = 1_000_000 * SECOND


def told(entry: int, subject: str = "web", severity: str = "error", kind: str = "gate", text: str = "") -> Told:
    summary = text or f"{subject} news"
    return Told(entry=entry, at=NOW + entry, severity=severity, subject=subject, kind=kind, summary=summary)


def numbered(rows: list[Delivery], first: int = 1) -> list[Delivery]:
    return [msgspec.structs.replace(one, seq=place) for place, one in enumerate(rows, first)]


@pytest.mark.req("PLB-5")
def test_the_same_kind_about_the_same_subject_is_one_message_with_a_count() -> None:
    news = [told(1), told(2), told(3, text="another sentence"), told(4, subject="api"), told(5, kind="worker")]
    web, api, worker = fold("oncall", [], news, NOW)
    assert (web.count, web.first_entry, web.last_entry, web.not_before) == (3, 1, 3, NOW + WINDOW)
    assert [(one.summary, one.count) for one in web.lines] == [("web news", 2), ("another sentence", 1)]
    assert (api.subject, api.count, worker.kind) == ("api", 1, "worker")


@pytest.mark.req("PLB-5")
def test_what_waits_is_joined_and_what_was_tried_is_left_as_it_is() -> None:
    [first] = numbered(fold("oncall", [], [told(1)], NOW))
    [joined] = fold("oncall", [first], [told(2, severity="error")], NOW + SECOND)
    assert (joined.seq, joined.count, joined.not_before) == (1, 2, first.not_before)
    tried = msgspec.structs.replace(first, attempts=1)
    [fresh] = fold("oncall", [tried], [told(2)], NOW + SECOND)
    assert (fresh.seq, fresh.count) == (0, 1)


@pytest.mark.req("PLB-5")
def test_a_critical_notice_goes_at_once_behind_what_was_said_of_its_subject_before() -> None:
    [before] = numbered(fold("oncall", [], [told(1)], NOW))
    flushed, critical = fold("oncall", [before], [told(2, severity="critical")], NOW + SECOND)
    assert (flushed.seq, flushed.not_before) == (1, NOW + SECOND)
    assert (critical.seq, critical.not_before) == (0, NOW + SECOND)
    sent = msgspec.structs.replace(critical, seq=2, state="delivered", attempts=1)
    [again] = fold("oncall", [sent], [told(3, severity="critical")], NOW + 2 * SECOND)
    assert again.not_before == NOW + SECOND + WINDOW  # the same within the window waits for its end, and no longer


@pytest.mark.req("PLB-5", "POL-15")
@pytest.mark.parametrize("severity", ["error", "critical"])
def test_a_storm_is_a_bounded_number_of_messages_and_none_is_uncounted(severity: str) -> None:
    news = [told(n, subject=f"s{n}", severity=severity) for n in range(10_000)]
    rows = fold("oncall", [], news, NOW)
    assert len(rows) == PER_WINDOW_MAX + 1
    assert sum(one.count for one in rows) == 10_000
    assert max(one.not_before for one in rows) <= NOW + WINDOW
    assert len(rows[-1].lines) == LINES_MAX
    more = fold("oncall", numbered(rows), [told(10_001, subject="late", severity=severity)], NOW + SECOND)
    assert [(one.seq, one.count) for one in more] == [(PER_WINDOW_MAX + 1, 10_000 - PER_WINDOW_MAX + 1)]


@pytest.mark.req("PLB-5")
def test_a_target_that_fails_for_long_gets_no_pile_afterwards() -> None:
    rows: list[Delivery] = []
    for minute in range(60):
        now = NOW + minute * 60 * SECOND
        news = [told(1000 * minute + n, subject=f"s{minute}-{n}") for n in range(100)]
        for one in fold("oncall", rows, news, now):
            if one.seq:
                rows[one.seq - 1] = one
            else:
                rows.append(msgspec.structs.replace(one, seq=len(rows) + 1))
    assert len(rows) == PER_WINDOW_MAX + 1
    assert sum(one.count for one in rows) == 6_000


@pytest.mark.req("PLB-5")
def test_back_off_doubles_up_to_five_minutes() -> None:
    assert [retry_after(n) // SECOND for n in (1, 2, 3, 6, 7, 8, 20, 1000)] == [5, 10, 20, 160, 300, 300, 300, 300]


@pytest.mark.req("PLB-5", "RUN-14")
def test_a_message_says_how_many_and_shows_no_secret() -> None:
    news = [told(n, text=f"line {n}: password=CANARY{n} and\nmore") for n in range(12)]
    [row] = numbered(fold("oncall", [], news, NOW))
    message = message_of(row, "h1")
    assert message.title.startswith("[error] web: line 0")
    assert message.title.endswith("(and 11 more)")
    assert "CANARY" not in message.title + message.body
    lines = message.body.splitlines()
    assert len(lines) == LINES_MAX + 2
    assert lines[-2].startswith("and 2 more notices")
    assert lines[-1] == "-- fleetwarden on h1, message M-1"
