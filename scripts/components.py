"""The real things beside Python that some tests need, how to find them, and how to get them.

One table, used three times: `make test` installs what is missing when it may (root on Debian or Ubuntu), tests that
are marked `needs(NAME)` are skipped with the reason where it is still missing, and in CI a missing one is a failure.
To add one, add a row to COMPONENTS.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Component:
    """One real thing, its Debian packages, and how it is found without starting it."""

    name: str
    used_for: str
    packages: tuple[str, ...]
    elsewhere: str
    find: Callable[[], Path | None]

    @property
    def how_to_get(self) -> str:
        """One line that a person can act on."""
        return f"apt-get install {' '.join(self.packages)} (Debian, Ubuntu); elsewhere: {self.elsewhere}"


def postgresql_binaries() -> Path | None:
    """The folder of initdb and postgres: Debian keeps it off PATH, one folder a version; the newest is taken."""
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def network_namespaces() -> Path | None:
    """The `ip` command, where this process may make network namespaces with it."""
    found, unshare = _on_path("ip"), _on_path("unshare")
    if found is None or unshare is None or os.geteuid() != 0:
        return None
    return (
        found if subprocess.run([unshare, "--net", "true"], capture_output=True, check=False).returncode == 0 else None
    )


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return None if found is None else Path(found)


COMPONENTS = {
    component.name: component
    for component in (
        Component(
            name="postgresql",
            used_for="the store's contract suite and the crash matrix on PostgreSQL",
            packages=("postgresql",),
            elsewhere="any PostgreSQL 14 or newer with initdb on PATH",
            find=postgresql_binaries,
        ),
        Component(
            name="prometheus",
            used_for="scaling on the signals of a real server",
            packages=("prometheus",),
            elsewhere="prometheus 2.42 or newer on PATH",
            find=lambda: _on_path("prometheus"),
        ),
        Component(
            name="namespaces",
            used_for="planes on hosts of their own, as network namespaces",
            packages=("iproute2",),
            elsewhere="ip (iproute2) on PATH and the right to make network namespaces, which root has",
            find=network_namespaces,
        ),
        Component(
            name="alertmanager",
            used_for="alerts of a real Prometheus by way of a real Alertmanager",
            packages=("prometheus-alertmanager",),
            elsewhere="alertmanager 0.25 or newer on PATH",
            find=lambda: _on_path("prometheus-alertmanager") or _on_path("alertmanager"),
        ),
    )
}


def in_ci() -> bool:
    """Whether a missing component is a failure: CI=true, as CI services set it."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def missing() -> list[Component]:
    """Those that this machine does not have."""
    return [component for component in COMPONENTS.values() if component.find() is None]


def may_install() -> bool:
    """Whether apt-get is here and would be obeyed."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and Path("/etc/debian_version").exists()


def install(components: Iterable[Component]) -> None:
    """Install by apt-get, without questions. What fails shows in the check that follows."""
    packages = [package for component in components for package in component.packages]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print(f"Installing: {' '.join(packages)}", flush=True)
    for command in (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", *packages],
    ):
        subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


def ensure() -> int:
    """Install what is missing where that is allowed, then say what stays missing and what that costs."""
    if missing() and may_install():
        install(missing())
    lacking = missing()
    for component in lacking:
        verdict = "needed in CI" if in_ci() else "its tests will be skipped"
        print(f"{component.name} is missing ({verdict}: {component.used_for}). Get it: {component.how_to_get}")
    return 1 if lacking and in_ci() else 0


def show() -> int:
    """One line a component."""
    for component in COMPONENTS.values():
        found = component.find()
        print(f"{component.name:<14} {found or 'missing'}\n{'':<14} for {component.used_for}; {component.how_to_get}")
    return 0


def main() -> int:
    """`show` what is here, or `ensure` that all of it is."""
    parser = argparse.ArgumentParser(description="Real components that tests need.")
    parser.add_argument("command", choices=["show", "ensure"])
    return {"show": show, "ensure": ensure}[parser.parse_args().command]()


if __name__ == "__main__":
    sys.exit(main())
