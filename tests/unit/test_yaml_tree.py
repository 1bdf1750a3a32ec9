"""YAML as a located tree: YAML 1.2's scalars, every value with its line, and one clear refusal for anything else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.adapters.files.yaml_tree import decode, parse, resolve
from fleetwarden.domain.errors import Misconfigured, Problem


def refusal(text: str | bytes) -> Problem:
    """The one finding that refuses `text`."""
    with pytest.raises(Misconfigured) as caught:
        parse(text if isinstance(text, str) else decode(text, "fleet.yml"), "fleet.yml")
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


# ------------------------------------------------------------------------------------------------ scalars
@pytest.mark.req("REC-8")
@pytest.mark.parametrize("word", ["off", "on", "yes", "no", "Off", "NO", "y", "n"])
def test_bare_words_that_old_yaml_takes_for_true_or_false_stay_text(word: str) -> None:
    assert parse(f"desired: {word}", "fleet.yml").plain() == {"desired": word}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nUll", "nUll"),
        ("true", True), ("True", True), ("FALSE", False), ("tRUE", "tRUE"),
        ("0", 0), ("-17", -17), ("+4", 4), ("010", 10), ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"), ("1_000", "1_000"),
        ("1.10", 1.1), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("1e999", math.inf),
        (".inf", math.inf), ("-.INF", -math.inf), ("+.Inf", math.inf), ("inf", "inf"), ("nan", "nan"),
        ("2027-01-01", "2027-01-01"), ("1:30", "1:30"),
        ("1.1.0", "1.1.0"), ("-", "-"), ("+", "+"), (".", "."), ("e1", "e1"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    resolved = resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_nan_is_a_number_that_equals_nothing() -> None:
    assert math.isnan(resolve(".nan"))


def test_quoted_scalars_are_text_whatever_they_look_like() -> None:
    assert parse("a: '1'\nb: \"true\"\nc: ''\nd: |\n  2\n", "f").plain() == {"a": "1", "b": "true", "c": "", "d": "2\n"}


def test_a_scalar_keeps_its_source_text() -> None:
    assert [value.text for _, value in parse("a: 1.10\nb: off\nc: 0x1F", "f").pairs()] == ["1.10", "off", "0x1F"]


def test_a_number_too_long_for_any_field_stays_text() -> None:
    assert parse("target: 1" + "0" * 10_000, "f").plain() == {"target": "1" + "0" * 10_000}


# ------------------------------------------------------------------------------------------------ places
def test_every_value_knows_its_file_and_line() -> None:
    tree = parse(
        "# a comment\nversion: 1\nservices:\n  - name: web\n    process:\n      command: [a,\n        b]\n", "f.yml"
    )
    service = tree.get("services").items()[0]  # type: ignore[union-attr]
    command = service.get("process").get("command")  # type: ignore[union-attr]
    assert [tree.line, tree.get("version").line, service.line, command.line] == [2, 2, 4, 6]  # type: ignore[union-attr]
    assert [item.where for item in command.items()] == ["f.yml:6", "f.yml:7"]  # type: ignore[union-attr]


def test_an_empty_value_stands_in_the_line_of_its_key() -> None:
    tree = parse("a: 1\nscaling:\nb: 2\n", "f")
    assert tree.get("scaling").line == 2  # type: ignore[union-attr]
    assert tree.get("scaling").value is None  # type: ignore[union-attr]


def test_doubled_keys_are_kept_for_the_rules_to_name() -> None:
    assert [(key.value, key.line, value.value) for key, value in parse("a: 1\nb: 2\na: 3", "f").pairs()] == [
        ("a", 1, 1), ("b", 2, 2), ("a", 3, 3),
    ]  # fmt: skip


def test_keys_that_are_no_text_are_kept_as_what_they_are() -> None:
    assert [key.value for key, _ in parse("1: a\ntrue: b\nnull: c", "f").pairs()] == [1, True, None]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n", "---\n..."])
def test_a_file_with_nothing_in_it_is_no_mapping_with_something_in_it(text: str) -> None:
    assert parse(text, "f").plain() in ({}, None)


def test_a_file_without_a_document_is_an_empty_mapping() -> None:
    assert parse("# only words\n", "f").mapping


# ------------------------------------------------------------------------------------------------ aliases and merges
def test_an_alias_stands_for_its_anchor_and_keeps_the_anchors_line() -> None:
    tree = parse("a: &x {port: 1}\nb: *x", "f")
    assert tree.plain() == {"a": {"port": 1}, "b": {"port": 1}}
    assert tree.get("b").line == 1  # type: ignore[union-attr]


def test_a_later_anchor_of_the_same_name_takes_over() -> None:
    assert parse("a: &x 1\nb: *x\nc: &x 2\nd: *x", "f").plain() == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_merge_keys_bring_what_the_mapping_does_not_say_itself() -> None:
    tree = parse("base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\nuse:\n  b: 9\n  <<: [*base, *other]\n", "f")
    assert tree.get("use").plain() == {"b": 9, "a": 1, "c": 4}  # type: ignore[union-attr]


def test_a_doubled_key_of_a_mapping_with_a_merge_is_still_doubled() -> None:
    tree = parse("base: &base {a: 1}\nuse: {<<: *base, b: 1, b: 2}", "f")
    assert [key.value for key, _ in tree.get("use").pairs()] == ["b", "b", "a"]  # type: ignore[union-attr]


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    assert parse('"<<": {a: 1}', "f").plain() == {"<<": {"a": 1}}


def test_a_merge_sign_among_the_items_of_a_list_or_as_a_value_is_text() -> None:
    assert parse("a: [<<, b]\nc: <<", "f").plain() == {"a": ["<<", "b"], "c": "<<"}


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    problem = refusal("\n".join(bomb))
    assert "aliases add more than 1,000,000 values" in problem.reason
    assert problem.line == 6


def test_aliases_cannot_reach_deeper_than_written_values() -> None:
    levels = [f"a0: &a0 {'[' * 30}{']' * 30}"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60)]
    problem = refusal("\n".join(levels))
    assert "nested deeper than 64 levels" in problem.reason


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.req("POL-14", "REC-8")
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x: 1\na: [1,\n  2\n\n", 2, "a '[' is not closed"),
        ("x: 1\na: {b: 1\nc: 2", 2, "a '{' is not closed"),
        ("x: 1\na: [\n\n", 2, "a value is missing here"),
        ("a: b: c", 1, "a ':' where no key can be"),
        ("a:\n\t- b", 2, "a tab used to indent?"),
        ("a:\n  - b\n c: d", 3, "does not fit the block above it"),
        ("- a\nb: 1", 2, "does not fit the list above it"),
        ("x: 1\na: 'abc\nb: 2\n", 2, "a closing quote is missing"),
        ("a: *x", 1, "no &x stands above it"),
        ("b: 1\na: &x [1, *x]", 2, "*x stands inside itself"),
        ("a: 1\n--- \nb: 2", 2, "a second document begins here"),
        ("a: 1\n...\nb: 2", 3, "text after the end"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", 2, "tag !!python/object/apply:os.system is refused"),
        ("a: !!str 1", 1, "tag !!str is refused"),
        ("a: !x {b: 1}", 1, "tag !x is refused"),
        ("[" * 65 + "]" * 65, 1, "nested deeper than 64 levels"),
        ("[" * 100_000, 1, "nested deeper than 64 levels"),
        ('a: "\\q"', 1, "unknown \\ escape"),
        ("a: 1\n? [b]\n: c", 2, "a key is text, not a list"),
        ("a: 1\n? {b: 1}\n: c", 2, "a key is text, not a mapping"),
        ("a: 1\nb: \x07", 2, "control character U+0007"),
        ("a: 1\n<<: 3", 2, "<< merges a mapping or a list of mappings, not a whole number"),
        ("\ufeffa: 1", 1, "byte order mark"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line_and_in_plain_words(text: str, line: int, reason: str) -> None:
    problem = refusal(text)
    assert (problem.file, problem.line) == ("fleet.yml", line)
    assert reason in problem.reason


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"\xef\xbb\xbfa: 1", 1, "byte order mark"),
        ("a: 1".encode("utf-16"), 1, "byte order mark"),
        (b"a: 1\nb: caf\xe9\n", 2, "byte 0xe9 is not UTF-8"),
        (b"a" * (yaml_tree.FILE_BYTES_MAX + 1), 0, "the limit is 16,777,216"),
    ],
)
def test_bytes_that_are_no_utf_8_text_are_refused(data: bytes, line: int, reason: str) -> None:
    problem = refusal(data)
    assert problem.line == line
    assert reason in problem.reason


def test_text_of_the_greatest_size_is_still_read() -> None:
    text = "a: 1 #" + "x" * (yaml_tree.FILE_BYTES_MAX - 6)
    assert parse(decode(text.encode(), "f"), "f").plain() == {"a": 1}


SAMPLES = [
    "version: 1\nservices:\n  - {name: a, x: &x [1, 'off', off, ~]}\n  - name: b\n    <<: {y: *x}\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n  line\nc:\n",
    "# only words\n",
    '{"json": [1, 2.5, "\\u00e9", null, true]}',
]


@pytest.mark.parametrize("text", SAMPLES)
def test_where_the_c_parser_is_missing_the_slow_one_gives_the_same_tree(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = parse(text, "f")
    monkeypatch.setattr(yaml_tree, "_Loader", yaml.SafeLoader)
    assert parse(text, "f") == quick
    with pytest.raises(Misconfigured):
        parse("a: [1, 2", "f")
    with pytest.raises(Misconfigured):
        parse("[" * 5_000, "f")


# ------------------------------------------------------------------------------------------------ all inputs
# Characters beyond the first plane would be escaped as two halves, which YAML does not know.
TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    text = json.dumps(value)  # escapes everything outside ASCII
    assert parse(text, "f").plain() == value


def findings_of(read: Callable[[], object]) -> tuple[Problem, ...]:
    """What was found wrong, if anything was.  Any other exception passes on."""
    try:
        read()
    except Misconfigured as error:
        return error.problems
    return ()


@given(st.text(max_size=200) | st.text(alphabet=st.sampled_from("ab:-[]{},&*<>|!'\"#?%@ \n\t~1."), max_size=80))
def test_any_text_is_a_tree_or_a_refusal_with_a_place(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + sum(map(text.count, "\x85\u2028\u2029")) + 1
    for problem in findings_of(lambda: parse(text, "f").plain()):
        assert problem.file == "f"
        assert 0 <= problem.line <= lines + 1
        assert problem.reason


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_a_refusal(data: bytes) -> None:
    findings = findings_of(lambda: decode(data, "f"))
    assert bool(findings) == (data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) or not is_utf_8(data))


def is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(st.integers(0, 3), max_size=30))
def test_lines_are_counted_through_blank_ones_and_comments(gaps: list[int]) -> None:
    lines: list[str] = []
    expected: list[int] = []
    for number, gap in enumerate(gaps):
        lines += ["", "# a comment", "  "][:gap]
        lines.append(f"key{number}: {number}")
        expected.append(len(lines))
    tree = parse("\n".join(lines), "f")
    assert [value.line for _, value in tree.pairs()] == expected
