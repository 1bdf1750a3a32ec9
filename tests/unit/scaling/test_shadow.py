"""The comparison of what would have been asked for with what another controller did."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.shadow import JUDGED, UNSEEN, ShadowRun, compare
from fleetwarden.domain.tracking_columns import Reason

HOUR = 3600
Row = tuple[float, int, int, int, str]  # hours, current, desired, raw, reason


def runs(rows: Sequence[Row], *, lasting: bool = False) -> list[ShadowRun]:
    """Runs one behind the other, from time 0."""
    found, at = [], 0
    for number, (hours, current, desired, raw, reason) in enumerate(rows, 1):
        until = at + round(hours * HOUR) * SECOND
        last = lasting and number == len(rows)
        found.append(
            ShadowRun(
                service="web",
                number=number,
                at=at,
                until=None if last else until,
                current=current,
                desired=desired,
                raw=raw,
                reason=reason,
            )
        )
        at = until
    return found


@pytest.mark.req("ASC-19")
def test_hours_agreement_and_time_with_too_few_are_those_of_the_judged_time() -> None:
    told = compare(
        runs(
            [
                (1, 2, 2, 2, "deadband"),
                (1, 2, 4, 5, "scale_up"),  # one short of what the equation asks for, three short
                (2, 4, 4, 4, "at_target"),
                (4, 4, 4, 4, "skip_metrics"),  # says nothing about anybody
            ]
        ),
        since=0,
        seen=0,
    )
    assert (told.judged_s, told.unjudged_s, told.runs) == (4 * HOUR, 4 * HOUR, 4)
    assert told.agreement == 0.75
    assert (told.ours.replica_hours, told.theirs.replica_hours) == (2 + 4 + 8, 2 + 2 + 8)
    assert (told.ours.under_s, told.theirs.under_s) == (HOUR, HOUR)
    assert (told.ours.actions, told.theirs.actions) == (1, 1)
    assert (told.since, told.until) == (0, 8 * HOUR * SECOND)


@pytest.mark.req("ASC-19")
def test_a_wish_that_stands_is_one_action_and_a_turn_is_a_reversal() -> None:
    told = compare(
        runs(
            [
                (1, 2, 3, 5, "scale_up"),
                (1, 2, 3, 4, "scale_up"),  # the same wish
                (1, 5, 4, 3, "scale_down"),  # they went up, past it; this wish turns
                (1, 3, 3, 3, "at_target"),
                (1, 3, 4, 4, "scale_up"),
            ]
        ),
        since=0,
        seen=0,
    )
    assert (told.ours.actions, told.ours.reversals) == (3, 2)
    assert (told.theirs.actions, told.theirs.reversals) == (2, 1)


@pytest.mark.req("ASC-19")
def test_a_count_that_nobody_saw_is_no_action_of_anybody() -> None:
    told = compare(
        runs([(1, 2, 2, 2, "deadband"), (1, 0, 0, 0, "skip_unobserved"), (1, 2, 2, 2, "deadband")]), since=0, seen=0
    )
    assert (told.theirs.actions, told.ours.actions) == (0, 0)


@pytest.mark.req("ASC-19")
def test_a_run_that_lasts_is_known_as_far_as_it_was_seen_and_the_rest_is_cut() -> None:
    made = runs([(2, 2, 2, 2, "deadband"), (9, 2, 3, 3, "scale_up")], lasting=True)
    told = compare(made, since=HOUR * SECOND, seen=3 * HOUR * SECOND)
    assert (told.judged_s, told.agreement) == (2 * HOUR, 0.5)
    nothing = compare(made, since=99 * HOUR * SECOND, seen=3 * HOUR * SECOND)
    assert (nothing.runs, nothing.agreement, nothing.since, nothing.until) == (0, None, None, None)


def test_every_reason_is_judged_or_says_why_it_is_not() -> None:
    """A reason that is added has to be put on one side."""
    left = {one.code for one in Reason} - JUDGED
    assert left >= UNSEEN
    assert {one for one in left if not one.startswith("skip_")} == {"not_asked", "no_news", "external", "prevented"}
