"""Patterns match as fnmatch does, and know what of them is literal."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetwarden.domain.globs import Glob

PIECES = st.text(alphabet="ab-*?[]!", max_size=8)


@pytest.mark.req("POL-5")
@given(pattern=PIECES, text=st.text(alphabet="ab-[]!*", max_size=6))
@example(pattern="[", text="[")
@example(pattern="[]a]*", text="]b")
@example(pattern="[!a]", text="b")
@example(pattern="a[b", text="a[b")
@example(pattern="[b-a]", text="b")
@example(pattern="a*b", text="a\nb")
def test_a_pattern_matches_what_fnmatch_matches(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) is fnmatchcase(text, pattern)


@pytest.mark.req("POL-5")
@given(pattern=PIECES)
def test_an_exact_pattern_matches_itself_and_nothing_else(pattern: str) -> None:
    glob = Glob(pattern)
    if glob.exact:
        assert glob.literals == len(pattern)
        assert glob.matches(pattern)
        assert not glob.matches(pattern + "a")


@pytest.mark.req("POL-5")
@pytest.mark.parametrize(
    ("pattern", "exact", "literals", "prefix", "core"),
    [
        ("web-1", True, 5, "web-1", "web-1"),
        ("web-*", False, 4, "web-", "web-"),
        ("*", False, 0, "", ""),
        ("*-db", False, 3, "", "-db"),
        ("w?b-*-eu1", False, 7, "w", "-eu1"),
        ("web[12]", False, 3, "web", "web"),
        ("[*]x", False, 1, "", "x"),
        ("a[b", True, 3, "a[b", "a[b"),
    ],
)
def test_only_literal_characters_count_as_specific(
    pattern: str, exact: bool, literals: int, prefix: str, core: str
) -> None:
    glob = Glob(pattern)
    assert (glob.exact, glob.literals, glob.prefix, glob.core) == (exact, literals, prefix, core)


def test_a_bracket_that_is_never_closed_is_noticed() -> None:
    assert Glob("web-[1").unclosed
    assert not Glob("web-[1]").unclosed
    assert not Glob("web-1]").unclosed


def test_equal_patterns_are_equal() -> None:
    assert Glob("a*") == Glob("a*") != Glob("b*")
    assert len({Glob("a*"), Glob("a*")}) == 1
