"""The scripts behind `make`: the environment is rebuilt when, and only when, something that decided it has changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts import components, venv

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder that looks like one: a python in it, and no stamp."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    return tmp_path


def stamp(environment: Path, content: str) -> None:
    """As the script leaves it after a complete install."""
    made = {"content": content, "digest": venv.digest(content)}
    (environment / venv.STAMP).write_text(json.dumps(made))


def test_an_environment_without_a_stamp_is_not_trusted(environment: Path) -> None:
    assert not venv.is_current(environment, "runtime")


def test_a_stamped_environment_is_reused_until_a_lock_changes(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("one==1\n")
    monkeypatch.setitem(venv.LOCKS, "runtime", lock)
    stamp(environment, "runtime")
    assert venv.is_current(environment, "runtime")
    lock.write_text("one==2\n")
    assert not venv.is_current(environment, "runtime")


def test_an_environment_for_tests_also_serves_to_run_but_not_the_reverse(environment: Path) -> None:
    stamp(environment, "dev")
    assert venv.is_current(environment, "runtime")
    stamp(environment, "runtime")
    assert not venv.is_current(environment, "dev")


def test_a_pin_is_taken_from_the_lock_with_all_its_hashes() -> None:
    entry = venv.pin_of("pip", venv.LOCKS["runtime"])
    assert entry.startswith("pip==")
    assert entry.count("--hash=sha256:") >= 2
    assert entry.count("==") == 1


def test_a_python_that_will_not_do_is_refused_with_what_would() -> None:
    found = subprocess.run(
        [ROOT / "scripts" / "find-python"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "no-such-python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "3.11 or newer" in found.stderr
    assert "no-such-python" in found.stderr


def test_every_component_says_how_to_get_it() -> None:
    for name, component in components.COMPONENTS.items():
        assert component.name == name
        assert all(package in component.how_to_get for package in component.packages)
        assert component.used_for
