"""Marks that say which requirement a test proves: well formed, and on tests only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENT = re.compile(r"[A-Z0-9]+-\d+")


def marks() -> Iterator[tuple[str, list[ast.expr], list[ast.keyword]]]:
    """Every call of pytest.mark.req in the tests: where, and with what."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.args, node.keywords


def test_every_mark_names_requirements_in_plain_text() -> None:
    wrong = []
    for where, arguments, keywords in marks():
        ids = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
        plain = len(ids) == len(arguments) > 0 and not keywords
        if not plain or not all(isinstance(one, str) and REQUIREMENT.fullmatch(one) for one in ids):
            wrong.append(where)
    assert wrong == []


def test_no_mark_names_a_requirement_twice() -> None:
    assert [
        where for where, arguments, _ in marks() if len({ast.unparse(one) for one in arguments}) < len(arguments)
    ] == []


def test_requirement_ids_stay_out_of_the_code() -> None:
    areas = "AUT|PRO|CON|SIG|SGP|ASC|POL|REC|OBS|ACT|HLT|EVT|PLB|DWH|RUN|ORC"
    pattern = re.compile(rf"\b(?:{areas})-\d+\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if pattern.search(line)
    ]
    assert found == []
