"""Reading query strings: a page, or a refusal that names the parameter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from fleetwarden.domain.identifiers import instant
from fleetwarden.ports.stores import Page
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import no_query, page_from, query_parameters

FILTERS, STATES = ("target", "kind", "state", "status"), ("pending", "granted")


def asking(query: str) -> Request:
    return Request({"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": []})


def page(query: str) -> Page:
    return page_from(asking(query), FILTERS, STATES)


def test_no_query_is_the_newest_fifty() -> None:
    assert page("") == Page(limit=50)


def test_every_parameter_lands_where_it_belongs() -> None:
    asked = page("target=web&kind=restart_service&status=pending&since=2027-01-31T12:00:00Z&limit=7&cursor=31")
    since = instant(datetime(2027, 1, 31, 12, tzinfo=UTC))
    assert asked == Page(target="web", kind="restart_service", state="pending", since=since, limit=7, before=31)


@given(
    st.integers(0, 900 * 365 * 86_400),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_a_time_is_the_same_moment_in_every_zone(since_1971_s: int, offset_min: int) -> None:
    zone = timezone(timedelta(minutes=offset_min))
    moment = datetime(1971, 1, 1, tzinfo=zone) + timedelta(seconds=since_1971_s)
    assert page(f"since={quote(moment.isoformat())}").since == instant(moment)


@given(
    st.text() | st.dictionaries(st.sampled_from([*FILTERS, "since", "limit", "cursor", "x"]), st.text()).map(urlencode)
)
def test_whatever_is_asked_is_a_page_or_a_refusal(query: str) -> None:
    asked = page_or_refusal(quote(query, safe="=&%+"))
    if isinstance(asked, Page):
        assert 1 <= asked.limit <= 500
        assert asked.state in (None, *STATES)
    else:
        assert asked.problems


def page_or_refusal(query: str) -> Page | Malformed:
    """Anything else that it raises is a fault."""
    try:
        return page(query)
    except Malformed as refusal:
        return refusal


@pytest.mark.parametrize("query", ["x", "x=", "limit=5", "=", "a=1&a=2"])
def test_a_route_without_parameters_takes_none(query: str) -> None:
    with pytest.raises(Malformed, match="unknown query parameter"):
        no_query(asking(query))


def test_a_misspelt_one_is_told_its_name() -> None:
    with pytest.raises(Malformed) as refusal:
        page("staus=pending")
    assert refusal.value.hint == "did you mean 'status'?"


def test_two_names_of_the_state_may_agree_but_not_contradict() -> None:
    assert page("state=pending&status=pending").state == "pending"
    with pytest.raises(Malformed):
        page("state=pending&status=granted")


def test_the_document_names_exactly_what_is_read() -> None:
    told = [one["name"] for one in query_parameters(FILTERS, STATES)["parameters"]]
    assert told == [*FILTERS, "since", "limit", "cursor"]
    for name in told:
        with pytest.raises(Malformed, match=name):
            page(f"{name}=%00")
