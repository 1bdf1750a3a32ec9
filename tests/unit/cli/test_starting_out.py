"""`init` writes a folder that loads, changes nothing by itself, and overwrites nothing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fleetwarden.adapters.files.folder import ConfigurationFolder
from fleetwarden.app.settings import load_settings
from fleetwarden.domain import policy as policies
from fleetwarden.testing import FakeClock
from tests.unit.cli.conftest import Shell


def loaded(folder: Path) -> ConfigurationFolder:
    return ConfigurationFolder(FakeClock(), registry=folder / "fleet.yml")


@pytest.mark.req("RUN-5")
def test_what_it_writes_is_valid(shell: Shell) -> None:
    ran = shell("init")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "Next:  fleetwarden up"
    assert shell("policy", "check").code == 0
    now = loaded(shell.folder / "fleet").current()
    assert (now.fleet.error, now.fleet.problems, now.fleet.warnings, now.policy_problems) == ("", (), (), ())
    assert list(now.fleet.services) == ["hello"]


def test_its_settings_load_and_act_on_processes_in_a_data_folder_of_their_own(shell: Shell) -> None:
    shell("init")
    settings = load_settings(None, {}, working_dir=shell.folder)
    assert settings.fleet_reconciler
    assert settings.fleet_actuator == ("process",)
    assert settings.fleet_data_dir == shell.folder / "fleet" / ".fleetwarden"
    assert settings.warnings == ()


def test_its_policy_is_the_shipped_default_spelled_out(shell: Shell) -> None:
    shell("init")
    written, shipped = loaded(shell.folder / "fleet").current().policy, policies.SHIPPED
    told = [(one.kind, one.target, one.tier, one.rate_limit, one.blast_radius, one.window) for one in written.rules]
    assert told == [
        (one.kind, one.target, one.tier, one.rate_limit, one.blast_radius, one.window) for one in shipped.rules
    ]
    assert written.options == shipped.options
    for name in ("tier", "rate_limit", "blast_radius", "window"):
        assert getattr(written.defaults, name) == getattr(shipped.defaults, name)


def test_every_line_that_is_commented_out_is_right_when_it_is_not(shell: Shell) -> None:
    shell("init")
    folder = shell.folder / "fleet"
    policy = (folder / "policy.yml").read_text()
    (folder / "policy.yml").write_text(policy.replace("  # - ", "  - ").replace("  #   ", "    "))
    registry = (folder / "fleet.yml").read_text()
    head, _, sample = registry.partition("# - name: shop")
    uncommented = "\n".join(line.removeprefix("# ") for line in f"- name: shop{sample}".splitlines())
    (folder / "fleet.yml").write_text(f"{head}\n" + "\n".join(f"  {line}" for line in uncommented.splitlines()) + "\n")
    assert shell("policy", "check").code == 0
    now = loaded(folder).current()
    assert (now.fleet.error, now.fleet.problems) == ("", ())
    assert sorted(now.fleet.services) == ["hello", "shop"]


def test_secrets_may_go_into_a_file_that_only_the_owner_reads(shell: Shell) -> None:
    shell("init", "elsewhere/deep")
    assert stat.S_IMODE((shell.folder / "elsewhere" / "deep" / ".env").stat().st_mode) == 0o600


def test_the_next_command_names_the_folder(shell: Shell) -> None:
    assert shell("init", "here").out.splitlines()[-1] == "Next:  fleetwarden --config here up"


@pytest.mark.parametrize("existing", ["fleet.yml", "policy.yml", ".env"])
def test_it_overwrites_nothing_and_then_writes_nothing(shell: Shell, existing: str) -> None:
    (shell.folder / "fleet").mkdir()
    (shell.folder / "fleet" / existing).write_text("mine")
    ran = shell("init")
    assert ran.code == 2
    assert existing in ran.err
    assert [one.name for one in (shell.folder / "fleet").iterdir()] == [existing]
    assert (shell.folder / "fleet" / existing).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_said(shell: Shell) -> None:
    (shell.folder / "file").write_text("")
    ran = shell("init", "file/below")
    assert ran.code == 2
    assert "cannot be written" in ran.err
