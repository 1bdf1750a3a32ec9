"""Parts that are found by their entry points: real packages' metadata in a folder on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetwarden.adapters.messages import AppriseChannel
from fleetwarden.app import plugins
from fleetwarden.app.injection import Injected
from fleetwarden.app.playbooks import with_installed
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.notify_file import Target
from fleetwarden.ports.notices import Message
from fleetwarden.testing import FakeClock, FakeSubstrate

MODULE = """
from fleetwarden.playbooks import End, PlaybookPlugin, PlaybookStep, StepKind
from fleetwarden.testing import FakeClock, FakeSubstrate

TOLD = []


class Pager:
    name = "pagers"

    def notify(self, notice):
        TOLD.append(notice)
        return True


class Nothing:
    pass


def substrate():
    return FakeSubstrate(FakeClock())


def tells():
    return PlaybookPlugin("grafana:critical", [PlaybookStep(kind=StepKind.NOTIFY, text="call somebody")], ("web*",))


def thinks():
    return PlaybookPlugin(["grafana"], lambda event, seen, log: End("done", "thought"))


def wrong():
    return PlaybookPlugin("grafana:loud", [])


def broken():
    raise RuntimeError("no portal here")
"""
Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with those entry points, as pip leaves it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "acme_fleet_parts.py").write_text(MODULE)

    def write(points: str) -> None:
        folder = tmp_path / "acme_fleet-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-fleet\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(points)

    yield write
    sys.modules.pop("acme_fleet_parts", None)


@pytest.mark.req("ACT-5")
def test_an_installed_notifier_is_told_what_is_routed_to_it(install: Install, tmp_path: Path) -> None:
    install("[fleetwarden.notifiers]\npagers = acme_fleet_parts:Pager\nempty = acme_fleet_parts:Nothing\n")
    channel = AppriseChannel(tmp_path, plugins.notifier)
    channel.send(Target(name="oncall", plugin="pagers"), Message(severity="error", title="t", body="b"))
    [told] = sys.modules["acme_fleet_parts"].TOLD
    assert (told.severity, told.summary, told.detail) == ("error", "t", {"body": "b"})
    with pytest.raises(Misconfigured, match=r"'empty' of acme-fleet cannot be used: it has no name, notify"):
        plugins.notifier("empty")
    with pytest.raises(Misconfigured, match=r"brings 'other' in fleetwarden.notifiers \(installed: empty, pagers\)"):
        plugins.notifier("other")


@pytest.mark.req("ACT-5")
def test_an_installed_observer_is_used_and_a_broken_one_is_named(install: Install) -> None:
    install("[fleetwarden.observers]\nportal = acme_fleet_parts:substrate\nother = acme_fleet_parts:broken\n")
    put, warnings = plugins.with_installed(Injected(), ())
    [observer] = put.observers
    assert type(observer) is FakeSubstrate
    [warning] = warnings
    assert warning.startswith("observers 'other' of acme-fleet cannot be loaded: RuntimeError: no portal here")
    injected = Injected()
    injected.observers.append(FakeSubstrate(FakeClock()))  # of the same name: what is injected outranks it
    assert plugins.with_installed(injected, ())[0].observers == injected.observers[:1]


@pytest.mark.req("ACT-5")
def test_an_installed_actuator_acts_only_where_it_is_chosen(install: Install, tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    with pytest.raises(Misconfigured, match="'portal' is no actuator"):
        load_settings(tmp_path / "fleet", {"FLEET_ACTUATOR": "portal"}, working_dir=tmp_path)
    install("[fleetwarden.actuators]\nportal = acme_fleet_parts:substrate\nother = acme_fleet_parts:broken\n")
    settings = load_settings(tmp_path / "fleet", {"FLEET_ACTUATOR": "portal"}, working_dir=tmp_path)
    assert settings.fleet_actuator == ("portal",)
    assert plugins.with_installed(Injected(), ("process",))[0].actuators == {}
    [(substrate, actuator)] = plugins.with_installed(Injected(), settings.fleet_actuator)[0].actuators.items()
    assert (substrate, type(actuator)) == ("", FakeSubstrate)
    with pytest.raises(Misconfigured, match="no portal here"):
        plugins.with_installed(Injected(), ("other",))


@pytest.mark.req("ACT-5")
def test_an_installed_signal_provider_answers_where_it_is_chosen(install: Install) -> None:
    install("[fleetwarden.signal_providers]\nmeter = acme_fleet_parts:Nothing\n")
    assert plugins.signal_provider(None) is None
    assert type(plugins.signal_provider("meter")).__name__ == "Nothing"
    with pytest.raises(Misconfigured, match="installed: meter"):
        plugins.signal_provider("other")


@pytest.mark.req("ACT-5", "RUN-16")
def test_an_installed_playbook_answers_once_it_is_chosen(install: Install, tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    points = "".join(f"{name} = acme_fleet_parts:{name}\n" for name in ("tells", "thinks", "wrong", "Nothing"))
    install(f"[fleetwarden.playbooks]\n{points}")
    assert with_installed(()) == ((), {})
    settings = load_settings(tmp_path / "fleet", {"FLEET_PLAYBOOKS": "tells, thinks"}, working_dir=tmp_path)
    [tells, thinks], written = with_installed(settings.fleet_playbooks)
    assert (tells.name, tells.on, tells.services) == ("tells", ("grafana:critical",), ("web*",))
    assert [one.text for one in tells.steps] == ["call somebody"]
    assert (thinks.name, thinks.steps, set(written)) == ("thinks", (), {"thinks"})
    for chosen, told in (
        (("absent",), "nothing that is installed brings 'absent'"),
        (("wrong",), "the playbook wrong cannot be registered"),
        (("Nothing",), "it has no on, playbook, services"),
        (("tells", "tells"), "is there already"),
    ):
        with pytest.raises(Misconfigured, match=told):
            with_installed(chosen)
