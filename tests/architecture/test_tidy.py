"""Style that can be checked is checked: sizes, names, injected time, docstrings, nothing of anybody's machine."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fleetwarden"
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "managers", "misc"}

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)


def name_of(path: Path) -> str:
    """As a person would write it."""
    return path.relative_to(ROOT).as_posix()


def modules() -> list[Path]:
    """Every module of the package, migrations included."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """The module's tree; a file that does not parse fails whichever test asks first."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


@cache
def code_lines(path: Path) -> frozenset[int]:
    """Line numbers that hold code: not blank, not a comment, not a docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(parsed(path)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
    return frozenset(
        number
        for number, line in lines
        if line.strip() and not line.strip().startswith("#") and number not in docstrings
    )


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Name and text of every tracked text file that is ours (vendored files keep their own words)."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of tracked files")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if "/static/" in name or "/vendor/" in name or not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_a_module_stays_below_400_lines_of_code() -> None:
    sizes = {name_of(path): len(code_lines(path)) for path in modules()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_a_function_stays_below_70_lines_of_code() -> None:
    long = {}
    for path in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, type_of_function):
                size = sum(1 for number in code_lines(path) if node.lineno <= number <= (node.end_lineno or 0))
                if size > FUNCTION_LINES_MAX:
                    long[f"{name_of(path)}:{node.lineno} {node.name}"] = size
    assert long == {}


def test_every_module_says_why_it_exists() -> None:
    silent = [name_of(path) for path in modules() if not (ast.get_docstring(parsed(path)) or "").strip()]
    assert silent == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [
        name_of(path)
        for path in (*modules(), *(folder for folder in PACKAGE.rglob("*") if folder.is_dir()))
        if path.stem in VAGUE_NAMES or path.stem.endswith(("_utils", "_helpers", "_manager"))
    ]
    assert vague == []


def calls_of_the_machine(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a module reads the clock, makes an id or rolls a die by itself, whatever it calls the import."""
    forbidden = {
        "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now",
        "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
        "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.sleep",
        "uuid.uuid1", "uuid.uuid4", "uuid.uuid7", "os.urandom",
    }  # fmt: skip
    known_as: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known_as |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in {"time", "uuid", "os", "random", "secrets"}:
            known_as |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            full = known_as.get(first, first) + dot + rest
            if full in forbidden or (first in known_as and full.split(".")[0] in {"random", "secrets"}):
                yield node.lineno, full


def test_time_ids_and_chance_are_injected_everywhere_but_in_app_and_adapters() -> None:
    own_machine = ("app", "adapters")
    found = [
        f"{name_of(path)}:{line} {what}"
        for path in modules()
        if path.relative_to(PACKAGE).parts[0] not in own_machine
        for line, what in calls_of_the_machine(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "from time import monotonic as tick\ntick()",
        "from datetime import datetime\nnow = datetime.now",
        "import datetime\ndatetime.datetime.now(tz=None)",
        "import uuid\nuuid.uuid4()",
        "from random import Random\nRandom()",
        "import secrets\nsecrets.token_hex()",
    ],
)
def test_the_search_for_clocks_and_dice_finds_each_of_them(source: str) -> None:
    assert list(calls_of_the_machine(ast.parse(source)))


def test_the_search_for_clocks_and_dice_leaves_injected_ones_alone() -> None:
    source = "import time\ndef pass_(clock, ids):\n    return clock.now(), clock.monotonic(), ids.new(), time.strftime"
    assert list(calls_of_the_machine(ast.parse(source))) == []


def test_nothing_is_left_for_later_in_the_code() -> None:
    pattern = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
    found = [
        f"{name}:{number}"
        for name, text in tracked_texts()
        if name.startswith(("src/", "tests/", "scripts/", "examples/", "benchmarks/"))
        for number, line in enumerate(text.split("\n"), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_path_of_somebodys_machine_is_tracked() -> None:
    homes = re.compile(r"(?<![\w./~-])/(?:home|Users)/[a-z][\w-]*/|(?<![\w./~-])/root/|/site-packages/")
    found = [
        f"{name}:{number}"
        for name, text in tracked_texts()
        if name != name_of(Path(__file__))
        for number, line in enumerate(text.split("\n"), 1)
        if homes.search(line)
    ]
    assert found == []


def test_no_package_registry_is_named() -> None:
    hosts = re.compile(
        r"files\.pythonhosted\.org|pypi\.org/simple|registry\.npmjs\.org|index-url|find-links", re.IGNORECASE
    )
    found = [
        f"{name}:{number}"
        for name, text in tracked_texts()
        if name != name_of(Path(__file__))
        for number, line in enumerate(text.split("\n"), 1)
        if hosts.search(line)
    ]
    assert found == []
