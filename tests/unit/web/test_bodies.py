"""Reading bodies: what JSON says comes out as it is, and whatever is not JSON comes out as one kind of refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.web.bodies import DEPTH_MAX, WHOLE_MAX, ClosedBody, parsed_json, validated
from fleetwarden.web.problems import Malformed
from fleetwarden.web.texts import TEXT_PATTERN, problem_of_text

text = st.text(st.characters(exclude_categories=["Cc", "Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | text
    | st.integers(-WHOLE_MAX, WHOLE_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20)


@given(values)
def test_json_comes_out_as_it_went_in(value: Any) -> None:
    assert parsed_json(json.dumps(value).encode()) == value
    assert parsed_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(
    st.binary()
    | st.text().map(lambda one: one.encode("utf-8", "surrogatepass"))
    | st.from_regex(rb'[{}\[\]",:0-9eE.\-+ntf]*')
)
def test_whatever_is_sent_is_read_or_refused(body: bytes) -> None:
    refused = refusal_of(lambda: parsed_json(body))
    if refused is None:
        assert parsed_json(body) == json.loads(body)
    else:
        assert refused.message


def refusal_of(read: Callable[[], Any]) -> Malformed | None:
    """The refusal, or None where it was read; anything else that it raises is a fault."""
    try:
        read()
    except Malformed as refusal:
        return refusal
    return None


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 1_000, 100_000])
def test_nesting_is_bounded_and_never_breaks_the_reader(opening: bytes, depth: int) -> None:
    closing = b"]" if opening == b"[" else b"}"
    with pytest.raises(Malformed, match="nested deeper than 32"):
        parsed_json(opening * depth + b"1" + closing * depth)


def test_nesting_up_to_the_bound_is_read() -> None:
    assert parsed_json(b"[" * (DEPTH_MAX - 1) + b"1" + b"]" * (DEPTH_MAX - 1))


@pytest.mark.parametrize(
    "number", [str(2**63), str(-(2**63)), "1e309", "-1e309", "9" * 5_000, "NaN", "Infinity", "-Infinity"]
)
def test_numbers_that_nobody_could_keep_are_refused(number: str) -> None:
    with pytest.raises(Malformed):
        parsed_json(f'{{"n": {number}}}'.encode())


@given(st.text())
def test_text_is_refused_exactly_if_it_holds_controls_or_half_characters(said: str) -> None:
    bad = [
        one
        for one in said
        if one not in "\t\n\r" and (ord(one) < 32 or 127 <= ord(one) < 160 or 0xD800 <= ord(one) < 0xE000)
    ]
    assert bool(problem_of_text(said)) == bool(bad)


@pytest.mark.parametrize("code", [0, 8, 9, 10, 11, 13, 27, 31, 32, 127, 128, 159, 160])
def test_the_documented_pattern_says_the_same(code: int) -> None:
    assert bool(re.search(TEXT_PATTERN, f"a{chr(code)}b")) == (problem_of_text(f"a{chr(code)}b") is None)


class Order(ClosedBody):
    on: bool
    count: int = 1
    for_s: float | None = None


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "on"),
        ({"on": 1}, "on"),
        ({"on": "true"}, "on"),
        ({"on": None}, "on"),
        ({"on": True, "count": "1"}, "count"),
        ({"on": True, "count": 1.0}, "count"),
        ({"on": True, "count": True}, "count"),
        ({"on": True, "for_s": "1"}, "for_s"),
        ({"on": True, "onn": True}, "onn"),
    ],
)
def test_nothing_is_converted_and_nothing_unknown_is_taken(body: dict[str, Any], where: str) -> None:
    with pytest.raises(Malformed) as refusal:
        validated(Order, body)
    assert [one.file for one in refusal.value.problems] == [where]


@pytest.mark.parametrize("body", [None, True, 1, "on", [], [{"on": True}]])
def test_only_an_object_is_a_body(body: Any) -> None:
    with pytest.raises(Malformed, match="no JSON object"):
        validated(Order, body)


@given(st.dictionaries(st.sampled_from(["on", "count", "for_s", "x"]), scalars))
def test_a_refusal_names_fields_and_repeats_no_value(body: dict[str, Any]) -> None:
    body = {name: f"s3cret-{value}" if isinstance(value, str) else value for name, value in body.items()}
    refused = refusal_of(lambda: validated(Order, body))
    if refused is not None:
        assert refused.problems
        assert "s3cret" not in str(refused)
