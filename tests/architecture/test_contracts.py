"""The layers: import-linter's contracts, and the rule for the domain as an allowlist, which is stronger."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.test_tidy import PACKAGE, ROOT, modules, name_of, parsed

NOT_FOR_THE_DOMAIN = {
    "asyncio", "concurrent", "ctypes", "http", "io", "locale", "logging", "multiprocessing", "os", "pathlib",
    "platform", "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "warnings",
}  # fmt: skip
ALSO_FOR_THE_DOMAIN = {"fleetwarden", "msgspec", "numpy"}

# For each contract, by id: a module and an import in it that has to break this contract.
PLANTED = {
    "layers": ("ports/planted.py", "import fleetwarden.store"),
    "acyclic": ("domain/planted.py", "import fleetwarden.domain.planted_too"),
    "domain-is-pure": ("domain/planted.py", "import time"),
    "controllers-reach-through-ports": ("controllers/planted.py", "import fleetwarden.adapters"),
    "one-executor": ("controllers/planted.py", "import fleetwarden.ports.actuation"),
    "autoscaler-cannot-act": ("controllers/autoscaler.py", "import fleetwarden.controllers.planted"),
    "engine-local-writes-no-intent": ("store/commit_queue.py", "import fleetwarden.store.intents"),
    "sql-in-store": ("app/planted.py", "import sqlalchemy"),
    "entry-points-translate": ("web/planted.py", "import fleetwarden.store"),
    "pydantic-at-the-edge": ("app/planted.py", "import pydantic"),
    "frameworks-in-their-layer": ("app/planted.py", "import fastapi"),
}


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.req("CON-2")
def test_each_contract_notices_what_it_forbids(tmp_path: Path) -> None:
    """All faults are planted at once in a copy; each contract then has to be reported as broken."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["id"] for contract in contracts} == set(PLANTED)
    copy = tmp_path / "fleetwarden"
    shutil.copytree(PACKAGE, copy)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, line in (*PLANTED.values(), ("domain/planted_too.py", "import fleetwarden.domain.planted")):
        with (copy / file).open("a") as module:
            module.write(f"\n{line}\n")
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([linter, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    kept = [contract["name"] for contract in contracts if f"{contract['name']} BROKEN" not in found.stdout]
    assert kept == [], found.stdout


def test_the_domain_imports_only_what_cannot_touch_the_world() -> None:
    allowed = (set(sys.stdlib_module_names) - NOT_FOR_THE_DOMAIN) | ALSO_FOR_THE_DOMAIN
    found = []
    for path in modules():
        if PACKAGE / "domain" not in path.parents:
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            found += [f"{name_of(path)}:{node.lineno} {name}" for name in names if name.split(".")[0] not in allowed]
    assert found == []
