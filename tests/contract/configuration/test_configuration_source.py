"""What every configuration source promises, whether it reads files or a test's words."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from fleetwarden.adapters.files.folder import ConfigurationFolder
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.registry import failed_fleet
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.testing.configuration import FakeConfiguration
from fleetwarden.testing.system import FakeClock


class World(Protocol):
    """Somebody who declares things to a source."""

    source: ConfigurationSource

    def declare(self, *names: str) -> None: ...

    def spoil(self) -> None:
        """Make the registry unreadable."""

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.declare("web")
        self.source: ConfigurationSource = ConfigurationFolder(
            FakeClock(), registry=folder / "fleet.yml", freeze_folders=(folder,)
        )

    def declare(self, *names: str) -> None:
        entries = ", ".join(f"{{name: {name}}}" for name in names)
        (self.folder / "fleet.yml").write_text(f"version: 1\nservices: [{entries}]\n")

    def spoil(self) -> None:
        (self.folder / "fleet.yml").write_text("services: [")

    def freeze(self) -> None:
        (self.folder / "FREEZE").touch()

    def thaw(self) -> None:
        (self.folder / "FREEZE").unlink()


class Words:
    def __init__(self) -> None:
        self.fake = FakeConfiguration()
        self.source: ConfigurationSource = self.fake
        self.declare("web")
        self.fake.refresh()

    def declare(self, *names: str) -> None:
        self.fake.declare(fleet=Fleet(services={name: Service(name=name) for name in names}))

    def spoil(self) -> None:
        self.fake.declare(fleet=failed_fleet([Problem("fleet.yml", 1, "is not closed")]))

    def freeze(self) -> None:
        self.fake.freeze("FREEZE")

    def thaw(self) -> None:
        self.fake.freeze("")


@pytest.fixture(params=["files", "fake"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return Files(tmp_path) if request.param == "files" else Words()


def names(source: ConfigurationSource) -> list[str]:
    return list(source.current().fleet.services)


def test_a_source_has_a_snapshot_from_the_start(world: World) -> None:
    assert names(world.source) == ["web"]
    assert world.source.current().last_good_fleet == world.source.current().fleet


def test_without_a_change_refresh_says_so_and_the_snapshot_stays(world: World) -> None:
    before = world.source.current()
    assert world.source.refresh() is False
    assert world.source.current() is before


@pytest.mark.req("REC-14")
def test_a_change_is_seen_by_the_next_refresh_and_told_once(world: World) -> None:
    world.declare("web", "worker")
    assert world.source.refresh() is True
    assert names(world.source) == ["web", "worker"]
    assert world.source.refresh() is False


def test_a_snapshot_in_hand_never_changes(world: World) -> None:
    before = world.source.current()
    world.declare("other")
    world.source.refresh()
    assert list(before.fleet.services) == ["web"]


@pytest.mark.req("REC-2")
def test_an_unreadable_registry_is_an_error_with_the_last_good_fleet_beside_it(world: World) -> None:
    good = world.source.current().fleet
    world.spoil()
    assert world.source.refresh() is True
    now = world.source.current()
    assert now.fleet.error
    assert now.fleet.problems
    assert not now.fleet.services
    assert now.last_good_fleet == good


@pytest.mark.req("REC-2")
def test_the_error_ends_when_the_registry_can_be_read_again(world: World) -> None:
    world.spoil()
    world.source.refresh()
    world.declare("db")
    assert world.source.refresh() is True
    assert world.source.current().fleet.error == ""
    assert names(world.source) == ["db"]


def test_a_policy_is_in_force_from_the_start(world: World) -> None:
    assert world.source.current().policy.digest.startswith("sha256:")


@pytest.mark.req("POL-12")
def test_a_freeze_file_is_seen_without_a_refresh_and_gone_when_it_is_gone(world: World) -> None:
    assert world.source.freeze_file() == ""
    world.freeze()
    assert world.source.freeze_file().endswith("FREEZE")
    world.thaw()
    assert world.source.freeze_file() == ""
