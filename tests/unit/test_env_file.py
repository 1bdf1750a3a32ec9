"""The `.env` file: the part that every reader of such files reads alike, and refusals for the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.app.env_file import Assignment, parse_env


def values(text: str) -> dict[str, str]:
    assignments, problems = parse_env(text, ".env")
    assert problems == []
    return {one.name: one.value for one in assignments}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("A=", ""),
        ("  A=1  ", "1"),
        ("export A=1", "1"),
        ("A=two words", "two words"),
        ("A=1 # a comment", "1"),
        ("A=#ff0000", ""),
        ("A=a#b", "a#b"),
        ("A=a=b", "a=b"),
        ("A='x # y'", "x # y"),
        ("A='$HOME and `x`'", "$HOME and `x`"),
        ("A='a\\nb'", "a\\nb"),
        ("A='x' # a comment", "x"),
        ('A="x # y"', "x # y"),
        ('A="a\\nb\\t\\"c\\" \\\\ \\$D"', 'a\nb\t"c" \\ $D'),
        ('A=""', ""),
        ("A=5$", "5$"),
        ('A=it"s', 'it"s'),
    ],
)
def test_values_are_read_as_a_shell_would_read_them(line: str, value: str) -> None:
    assert values(line) == {"A": value}


def test_lines_are_counted_and_comments_and_blank_lines_passed_over() -> None:
    assignments, problems = parse_env("# first\n\nA=1\r\n  # second\nB=2", ".env")
    assert assignments == [Assignment("A", "1", 3), Assignment("B", "2", 5)]
    assert problems == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("A", "is neither NAME=value"),
        ("A: 1", "is neither NAME=value"),
        ("A =1", "is neither NAME=value"),
        ("1A=1", "is neither NAME=value"),
        ("A-B=1", "is neither NAME=value"),
        ("A= 1", "A: a space after '='"),
        ("A='x", "A: the closing ' is missing"),
        ('A="x', 'A: the closing " is missing'),
        ('A="x\\"', 'A: the closing " is missing'),
        ("A='x'y", "A: text after the closing '"),
        ('A="x" y', 'A: text after the closing "'),
        ('A="\\q"', "A: unknown \\q"),
        ("A=$HOME/x", "A: variables and commands are not filled in here"),
        ("A=${HOME}", "A: variables and commands are not filled in here"),
        ("A=$(id)", "A: variables and commands are not filled in here"),
        ("A=`id`", "A: variables and commands are not filled in here"),
        ('A="$HOME"', "A: variables and commands are not filled in here"),
        ("A=1\nA=2", "A stands here twice, first in line 1"),
    ],
)
def test_a_line_that_others_would_read_in_another_way_is_refused(line: str, reason: str) -> None:
    _, problems = parse_env(line, ".env")
    assert len(problems) == 1
    assert problems[0].file == ".env"
    assert problems[0].line == line.count("\n") + 1
    assert problems[0].reason.startswith(reason)


def test_no_value_stands_in_a_message() -> None:
    text = "A='s3cret\nB=\"s3cret\nC=s3cret`\nD='s3cret's3cret\nE= s3cret\ns3cret\nF=\"$s3cret\"\nA=s3cret"
    _, problems = parse_env(text, ".env")
    assert len(problems) == 8
    assert not any("s3cret" in one.reason for one in problems)


def test_every_bad_line_is_named_and_the_good_ones_stand() -> None:
    assignments, problems = parse_env("A=1\nB\nC=3\nD='", ".env")
    assert [one.name for one in assignments] == ["A", "C"]
    assert [one.line for one in problems] == [2, 4]


@given(st.text(st.characters(exclude_characters="'\n", exclude_categories=["Cs"])))
def test_single_quotes_keep_any_text(text: str) -> None:
    assert values(f"A='{text}'") == {"A": text}


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    assignments, problems = parse_env(text, ".env")
    lines = text.split("\n")
    places = [*(one.line for one in assignments), *(one.line for one in problems)]
    assert all(1 <= line <= len(lines) for line in places)
