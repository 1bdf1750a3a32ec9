"""What reaches a terminal: aligned, folded not cut, and never driven by what a service printed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.cli.screen import Screen, clean, width_of
from tests.unit.cli.conftest import Paper


def test_columns_are_aligned_and_nothing_trails(paper: Paper) -> None:
    paper.screen.table(("SERVICE", "STATE", "WHY"), [("web", "up", ""), ("a-long-name", "down", "because")])
    assert paper.lines == ["SERVICE      STATE  WHY", "web          up", "a-long-name  down   because"]


def test_a_pipe_gets_whole_lines(paper: Paper) -> None:
    paper.screen.table(("A", "B"), [("x", "word " * 100)])
    paper.screen.line("word " * 100)
    assert [len(line) for line in paper.lines] == [1 + 2 + 1, 3 + 499, 499]


def test_a_terminal_folds_the_last_column_under_itself() -> None:
    paper = Paper(width=40)
    paper.screen.table(("SERVICE", "WHY"), [("web", "one two three four five six seven eight nine")])
    assert paper.lines == ["SERVICE  WHY", "web      one two three four five six", "         seven eight nine"]


def test_a_terminal_folds_a_line_with_its_indent() -> None:
    paper = Paper(width=40)
    paper.screen.line("  rule      one two three four five six seven", indent=12)
    assert paper.lines == ["  rule      one two three four five six", "            seven"]


def test_a_terminal_too_narrow_to_fold_keeps_everything() -> None:
    paper = Paper(width=12)
    paper.screen.table(("SERVICE", "WHY"), [("web", "one two three")])
    assert paper.lines[1] == "web      one two three"


def test_wide_and_combining_characters_are_measured_as_they_are_shown() -> None:
    assert (width_of("web"), width_of("東京"), width_of("é")) == (3, 4, 1)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("one\ntwo\r\nthree", "one two three"),
        ("a\tb", "a b"),
        ("bell\x07", "bell\\x07"),
        ("[bold]x[/bold] [/]", "[bold]x[/bold] [/]"),
        ("right\u202eleft", "right\\u202eleft"),
        ("✓ · × 東京", "✓ · × 東京"),
    ],
)
def test_control_characters_show_and_do_not_act(said: str, shown: str) -> None:
    assert clean(said) == shown


@given(st.text())
def test_no_text_writes_more_than_its_line(said: str) -> None:
    paper = Paper(colour=False)
    paper.screen.line(said)
    paper.screen.table(("A", "B"), [(said, said)])
    assert len(paper.lines) == 3
    assert "\x1b" not in paper.text


def test_colour_only_repeats_a_word_and_keeps_the_columns() -> None:
    rows = [("web", "up", "as declared"), ("db", "down", "denied")]
    plain, coloured = Paper(), Paper(colour=True)
    for one in (plain, coloured):
        one.screen.table(("SERVICE", "STATE", "WHY"), rows, tones={"up": "good", "down": "bad"})
    assert "\x1b[32mup\x1b[0m" in coloured.text
    without = coloured.text.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert without == plain.text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_colour_and_a_width_unless_it_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Screen.of_terminal(Terminal()).width == 77
    assert "\x1b" in Screen.of_terminal(Terminal()).tone("up", "good")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen.of_terminal(Terminal()).tone("up", "good") == "up"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert Screen.of_terminal(Terminal()).tone("up", "good") == "up"


def test_a_pipe_has_neither() -> None:
    piped = Screen.of_terminal(io.StringIO())
    assert piped.width is None
    assert piped.tone("up", "good") == "up"


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")

    def flush(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_goes_away_is_a_failure_unless_that_may_happen() -> None:
    screen = Screen(Gone())
    with pytest.raises(OSError, match="Input/output"):
        screen.line("x")
    screen.may_go = True
    screen.line("x")
    screen.flush()
