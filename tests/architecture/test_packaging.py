"""The wheel: it builds without a network, and holds the data files beside the code."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_holds_everything_under_the_package(tmp_path: Path) -> None:
    """YAML, templates, static files and migrations are read at run time, so an install needs them all."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    package = ROOT / "src" / "fleetwarden"
    files = {
        f"fleetwarden/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert files - shipped == set()
    assert any(name.endswith("licenses/LICENSE") for name in shipped)
