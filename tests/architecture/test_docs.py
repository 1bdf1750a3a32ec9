"""The documentation is complete and not stale: what the program has is described, and what is described exists."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_tidy import PACKAGE, ROOT, modules, parsed

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
LEVELS = {"IMPLEMENTED", "LAB-PROVEN", "LIVE", "1M-CERTIFIED"}
METRIC_TYPES = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
HTTP_METHODS = {"get", "post", "put", "patch", "delete"}


@functools.cache
def documented() -> str:
    """Everything under docs/, as one text."""
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES if "docs" in page.parts)


def is_documented(name: str) -> bool:
    """Whether it stands there as a whole word."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", documented()) is not None


def load(module: str) -> Any:
    """The module, or a skip while it has not been written. A module that is there but broken fails."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if not missing.name or not f"{module}.".startswith(missing.name + "."):
            raise
        found = None
    if found is None or found.__file__ is None:  # an empty folder is importable, too
        pytest.skip(f"{module} does not exist yet")
    return found


def setting_names(settings: Any) -> Iterator[str]:
    """The environment variables of a pydantic-settings class: an alias where given, else prefix and field name."""
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        alias = field.validation_alias or field.alias
        choices = getattr(alias, "choices", [alias]) if alias else [f"{prefix}{name}"]
        yield next(str(choice) for choice in choices).upper()


def test_every_setting_is_documented() -> None:
    settings = load("fleetwarden.app.settings").Settings
    assert [name for name in setting_names(settings) if not is_documented(name)] == []


def command_names(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of a click tree, as typed; hidden ones are not promised to anybody."""
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(words)
        return
    for name, child in children.items():
        if not child.hidden:
            yield from command_names(child, (*words, name))


def command_tree() -> Any:
    """The click command behind the `fleetwarden` script."""
    cli = load("fleetwarden.cli")
    typer = importlib.import_module("typer")
    for module in (cli, *(value for value in vars(cli).values() if hasattr(value, "__name__"))):
        for value in vars(module).values() if hasattr(module, "__dict__") else ():
            if isinstance(value, typer.Typer):
                return typer.main.get_command(value)
    pytest.fail("fleetwarden.cli shows no Typer application")


def test_every_command_is_documented() -> None:
    lacking = [name for name in command_names(command_tree()) if not is_documented(f"fleetwarden {name}")]
    assert lacking == []


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """Commands that pages show: at the start of a line of an example, or between backticks."""
    shown = re.compile(r"(?:^(?: {4}\s*|\t)(?:\$ )?(?:\.venv/bin/)?|^|`)fleetwarden ([a-z][a-z -]*)", re.MULTILINE)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in shown.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{page.relative_to(ROOT)}:{line}", match.group(1).split()


def test_pages_show_only_commands_that_exist() -> None:
    tree = command_tree()
    wrong = []
    for where, words in shown_commands():
        command = tree
        for word in words:
            children = getattr(command, "commands", None)
            if children is None:
                break
            if word not in children:
                wrong.append(f"{where} {' '.join(words)}")
                break
            command = children[word]
    assert wrong == []


def routes() -> Iterator[str]:
    """Paths that the web package's decorators declare; a router's prefix is not repeated there."""
    for path in modules():
        if PACKAGE / "web" not in path.parents:
            continue
        for node in ast.walk(parsed(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in HTTP_METHODS
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and str(node.args[0].value).startswith("/")
            ):
                yield str(node.args[0].value)


def without_names(path: str) -> str:
    """`/approvals/{id}` and `/approvals/{approval_id:path}` are the same place."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_route_is_documented() -> None:
    load("fleetwarden.web")
    text = without_names(documented())
    lacking = [route for route in routes() if not re.search(rf"{re.escape(without_names(route))}(?![\w{{/-]*\w)", text)]
    assert lacking == []


def metrics() -> Iterator[str]:
    """Names of Prometheus metrics that the source makes, as they are exposed."""
    for path in modules():
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            kind = ast.unparse(node.func).rpartition(".")[2]
            name = node.args[0].value
            if isinstance(name, str) and (kind in METRIC_TYPES or kind.endswith("MetricFamily")):
                counts = kind.startswith("Counter") and not name.endswith("_total")
                yield f"{name}_total" if counts else name


def test_every_metric_is_documented() -> None:
    assert [name for name in metrics() if not is_documented(name)] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (page.parent / target.partition("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert broken == []


def test_every_decision_is_listed_and_says_what_was_turned_down() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(folder.glob("[0-9]*.md"))
    assert [record.name[:4] for record in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert record.name in listed
        for part in ("Status: ", "## Context", "## Decision", "## Consequences", "## Turned down"):
            assert part in text, f"{record.name} lacks {part}"


def test_every_claim_has_a_level_and_a_test() -> None:
    table = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8").split("| Claim |")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:] if line.strip()]
    assert rows
    for claim, level, shown_by in rows:
        assert level in LEVELS, claim
        for test in re.split(r"[, ]+", shown_by):
            file, _, name = Path(test.strip("`")).as_posix().partition("::")
            assert (ROOT / file).is_file(), claim
            assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), claim
