"""The layers: import-linter's contracts, and the rule for the domain as an allowlist, which is stronger."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.test_tidy import PACKAGE, ROOT, modules, name_of, parsed

NOT_FOR_THE_DOMAIN = {
    "asyncio", "concurrent", "ctypes", "http", "io", "locale", "logging", "multiprocessing", "os", "pathlib",
    "platform", "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "warnings",
}  # fmt: skip
ALSO_FOR_THE_DOMAIN = {"fleetwarden", "msgspec", "numpy"}


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


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
