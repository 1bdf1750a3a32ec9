"""The locks: complete, hashed, and free of addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ["requirements.lock", "requirements-dev.lock", "requirements-bench.lock"]


def pinned(lock: str) -> dict[str, str]:
    """Name → version."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", (ROOT / lock).read_text(), re.MULTILINE))


def wanted(requirements: list[str]) -> set[str]:
    """Normalised names of requirements as pyproject.toml writes them."""
    names = (re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0] for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert re.findall(r"\w+://\S*|^-\S+.*|.*@ .*", text, re.MULTILINE) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    entries = re.split(r"\n(?=[a-z0-9])", (ROOT / lock).read_text())
    pins = [entry for entry in entries if "==" in entry.split("\n")[0]]
    assert pins
    assert [entry.split("\n")[0] for entry in pins if "--hash=sha256:" not in entry] == []


def test_the_locks_hold_what_pyproject_asks_for_and_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runtime, everything = pinned(LOCKS[0]), pinned(LOCKS[1])
    assert wanted(project["dependencies"] + extras["postgres"] + extras["notify"]) - set(runtime) == set()
    assert wanted(extras["dev"]) - {"fleetwarden"} - set(everything) == set()
    assert {name: version for name, version in runtime.items() if everything.get(name) != version} == {}
