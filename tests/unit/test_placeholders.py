"""Placeholders in process blocks: filled or refused, and everything else in braces left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.placeholders import KNOWN, expand, placeholders, unknown_placeholders

VALUES: dict[str, str | int] = {"port": 9101, "index": 1, "version": "1.10", "name": "web"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--port={port}", "--port=9101"),
        ("{name}-{index}.{version}", "web-1.1.10"),
        ("{port}{port}", "91019101"),
        ("plain", "plain"),
        ("", ""),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{ port }", "{ port }"),
        ("{}", "{}"),
        ("{{port}}", "{port}"),
        ("{{other}} {port}", "{other} 9101"),
        ("${HOME}/{name}", "${HOME}/web"),
        ("$port {port}", "$port 9101"),
        ("{.Name}", "{.Name}"),
    ],
)
def test_known_words_in_braces_are_filled_and_nothing_else_is_touched(text: str, filled: str) -> None:
    assert expand(text, VALUES) == filled
    assert unknown_placeholders(text) == ()


@pytest.mark.parametrize("text", ["{prot}", "x{Port}y", "{port}{por_t}", "{env}"])
def test_a_word_that_nothing_fills_is_named_and_never_passed_on(text: str) -> None:
    assert len(unknown_placeholders(text)) == 1
    with pytest.raises(KeyError):
        expand(text, VALUES)


def test_a_known_word_without_a_value_is_not_filled_with_nothing() -> None:
    with pytest.raises(KeyError):
        expand("{port}", {"index": 0})


def test_names_are_told_in_their_order() -> None:
    assert placeholders("{b} {{no}} {a} {b}") == ("b", "a", "b")


@given(st.text(alphabet=st.sampled_from("{}$ portindexv"), max_size=40))
def test_a_text_without_unknown_words_can_always_be_filled(text: str) -> None:
    if not unknown_placeholders(text):
        assert set(placeholders(text)) <= set(KNOWN)
        expand(text, VALUES)
