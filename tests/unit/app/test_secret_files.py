"""Secrets in files: read, read again, and never told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.app.first_token import first_admin_token, watched
from fleetwarden.app.identity import Unauthenticated, authenticate
from fleetwarden.app.secret_files import SECRET_BYTES_MAX, StoreAddress, read_secret
from fleetwarden.app.settings import SECRETS, Settings, load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.store.opening import open_store
from fleetwarden.testing import FakeClock

CANARY = "canary-0123456789abcdef"
VALUES = {"FLEET_STORE_URL": f"postgresql://fleet:{CANARY}@127.0.0.1:1/fleet"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "fleet"
    made.mkdir()
    return made


def load(folder: Path, env: str = "", **environ: str) -> Settings:
    (folder / ".env").write_text(env)
    return load_settings(folder, environ, working_dir=folder)


def refused(folder: Path, env: str = "", **environ: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(folder, env, **environ)
    assert CANARY not in str(caught.value)
    return str(caught.value)


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize("name", sorted(SECRETS))
def test_every_secret_can_lie_in_a_file(folder: Path, name: str) -> None:
    value = VALUES.get(name, CANARY)
    (folder / "secret").write_text(f"{value}\n")
    settings = load(folder, f"{name}_FILE=secret")
    found = getattr(settings, name.lower())
    assert found.get_secret_value() == value
    assert CANARY not in repr(settings) + str(settings.warnings) + str(settings.sources)


@pytest.mark.req("RUN-14")
def test_one_place_names_a_secret_one_way_and_the_environment_wins(folder: Path) -> None:
    (folder / "secret").write_text(CANARY)
    both = "FLEET_TOKEN_FILE=secret\nFLEET_TOKEN=other"
    assert "FLEET_TOKEN and FLEET_TOKEN_FILE are both given" in refused(folder, both)
    assert load(folder, "FLEET_TOKEN_FILE=secret", FLEET_TOKEN="env").fleet_token.get_secret_value() == "env"  # type: ignore[union-attr]
    by_file = load(folder, "FLEET_TOKEN=env", FLEET_TOKEN_FILE=str(folder / "secret"))
    assert by_file.fleet_token is not None
    assert by_file.fleet_token.get_secret_value() == CANARY


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (f"{CANARY}\n{CANARY}".encode(), "more than one line"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), "longer than"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_and_refused(folder: Path, content: bytes, told: str) -> None:
    (folder / "secret").write_bytes(content)
    message = refused(folder, "FLEET_TOKEN_FILE=secret")
    assert told in message
    assert ".env:1" in message
    assert "cannot be read" in refused(folder, "FLEET_TOKEN_FILE=nowhere")


@pytest.mark.req("RUN-14")
def test_a_wrong_address_in_a_file_is_refused_without_being_told(folder: Path) -> None:
    (folder / "secret").write_text(f"mysql://fleet:{CANARY}@host/db")
    assert "FLEET_STORE_URL" in refused(folder, "FLEET_STORE_URL_FILE=secret")


@pytest.mark.req("RUN-14")
def test_a_stores_password_is_read_again_for_each_connection_but_never_another_database(folder: Path) -> None:
    file = folder / "secret"
    file.write_text("postgresql://fleet:one-password@db.example/fleet")
    address = load(folder, "FLEET_STORE_URL_FILE=secret").store_address
    assert isinstance(address, StoreAddress)
    assert address() == "postgresql://fleet:one-password@db.example/fleet"
    file.write_text("postgres://fleet:two-password@db.example/fleet\n")
    assert address() == "postgresql://fleet:two-password@db.example/fleet"
    file.write_text("postgresql://fleet:three@elsewhere.example/fleet")
    assert "two-password@db.example" in address()
    file.unlink()
    assert "two-password@db.example" in address()


@pytest.mark.req("RUN-14")
def test_a_changed_admin_token_is_valid_and_the_one_before_it_is_not(folder: Path) -> None:
    file = folder / "secret"
    file.write_text("first-0123456789abcdef")
    settings = load(folder, "FLEET_ADMIN_TOKEN_FILE=secret")
    store = open_store(f"sqlite:///{folder / 'fleet.db'}", FakeClock())
    first_admin_token(store, settings, "")
    watch = watched(store, settings)
    assert watch is not None
    assert watch.look() is False
    file.write_text("second-0123456789abcdef")
    assert watch.look() is True
    assert authenticate(store, "second-0123456789abcdef").roles == ("admin",)
    with pytest.raises(Unauthenticated):
        authenticate(store, "first-0123456789abcdef")
    file.write_text("short")
    with pytest.raises(ValueError, match="fewer than 16"):
        watch.look()
    file.unlink()
    assert watch.look() is False
    assert authenticate(store, "second-0123456789abcdef").person == "admin"
    store.close()


def test_a_secret_is_one_line_without_the_space_around_it(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("  a b \r\n")
    assert read_secret(tmp_path / "s") == "a b"
