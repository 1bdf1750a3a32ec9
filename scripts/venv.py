"""Makes the virtual environment that `make` uses, and leaves it alone when nothing has changed.

It runs on the standard library alone, before anything is installed. What is in the environment is exactly what the
hashed lock names, plus this checkout in editable form. A stamp inside it holds a digest of everything that decided its
content; while it matches, a second call costs a few milliseconds. uv is used where it is on PATH, because it is several
times faster, and never needed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
STAMP = "fleetwarden-stamp.json"


def main() -> int:
    """Bring the environment up to date, or say in one line why that failed."""
    parser = argparse.ArgumentParser(description="Make or update the virtual environment.")
    parser.add_argument("content", choices=sorted(LOCKS), help="runtime: to run it; dev: also to test it")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    asked = parser.parse_args()
    venv: Path = asked.venv.absolute()
    with only_one(venv):
        if is_current(venv, asked.content):
            return 0
        started = time.monotonic()
        print(f"Preparing {venv.name} ({asked.content}) ...", flush=True)
        try:
            install(venv, asked.content)
        except subprocess.CalledProcessError as failure:
            print(f"fleetwarden: could not prepare {venv.name}: {failure}", file=sys.stderr)
            return 1
        stamp = {"content": asked.content, "digest": digest(asked.content)}
        (venv / STAMP).write_text(json.dumps(stamp) + "\n")
        print(f"Ready after {time.monotonic() - started:.0f} s.", flush=True)
    return 0


@contextlib.contextmanager
def only_one(venv: Path) -> Iterator[None]:
    """Two calls of make in one checkout take turns; the kernel frees the lock however the first one ends."""
    with venv.with_name(venv.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def digest(content: str) -> str:
    """Of everything that decides what the environment holds; of pyproject.toml not what only tools read."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    decisive = {key: project.get(key) for key in ("build-system", "project", "dependency-groups")}
    decisive["hatch"] = project["tool"]["hatch"]
    seen = hashlib.sha256(LOCKS[content].read_bytes())
    seen.update(json.dumps(decisive, sort_keys=True).encode())
    seen.update(str(ROOT).encode())  # scripts and the editable install hold this path
    return seen.hexdigest()


def is_current(venv: Path, content: str) -> bool:
    """Whether the stamp says so; an environment with everything also serves who only wants to run."""
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return False
    if not (venv / "bin" / "python").exists():
        return False
    return any(stamp == {"content": enough, "digest": digest(enough)} for enough in dict.fromkeys((content, "dev")))


def install(venv: Path, content: str) -> None:
    """Create the environment if needed, install the lock and this checkout, and compile what was installed."""
    python = venv / "bin" / "python"
    lock = LOCKS[content]
    # The lock is complete, so nothing needs to be resolved. Compiling is left to the end, where it uses every core.
    options = ["--quiet", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    editable = ["--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    (venv / STAMP).unlink(missing_ok=True)
    uv = shutil.which("uv")
    if not (uv and installed_by_uv(uv, venv, options, editable)):
        if not (venv / "bin" / "pip").exists():
            run(sys.executable, "-m", "venv", str(venv))
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as only_pip:
            only_pip.write(pin_of("pip", lock))
            only_pip.flush()
            run(*pip, "install", "--quiet", "--no-deps", "--require-hashes", "--requirement", only_pip.name)
        run(*pip, "install", "--no-compile", *options)
        run(*pip, "install", *editable)
    # A file that does not compile (a template of some package) is no reason to fail.
    subprocess.run([str(python), "-m", "compileall", "-qq", "-j", "0", str(venv / "lib")], check=False)


def installed_by_uv(uv: str, venv: Path, options: list[str], editable: list[str]) -> bool:
    """Whether uv did it. Its package index may be set up differently from pip's, so a failure is no verdict."""
    os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
    os.environ.setdefault("UV_NO_PROGRESS", "1")
    python = venv / "bin" / "python"
    try:
        if not python.exists():
            run(uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(venv))
        run(uv, "pip", "install", "--python", str(python), *options)
        run(uv, "pip", "install", "--python", str(python), *editable)
    except subprocess.CalledProcessError:
        print("uv could not do it; using pip.", file=sys.stderr)
        return False
    return True


def pin_of(name: str, lock: Path) -> str:
    """One entry of a lock, with its hashes."""
    entry = re.search(rf"^{name}==(?:.*\\\n)*.*\n", lock.read_text(), re.MULTILINE)
    assert entry, f"{lock.name} does not pin {name}"
    return entry.group()


def run(*command: str) -> None:
    """Run to the end; any failure raises."""
    subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
