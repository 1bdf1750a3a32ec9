"""The composition root as a deployment uses it: parts injected, passes run by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetwarden import wiring
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import Forbidden, Role, local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.controllers.reconciler import ReconcileReport
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.events import FleetEvent, Phase, Severity
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Page
from fleetwarden.ports.system import Notice
from fleetwarden.testing import FakeClock, FakeSubstrate

REGISTRY = "version: 1\nservices:\n  - {name: web, replicas: 2}\n"
POLICY = "version: 1\nrules:\n  - {kind: '*_service', target: '*', tier: auto_notify}\n"


class Heard:
    """A notifier that remembers, and can refuse."""

    name = "heard"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.deaf = False

    def notify(self, notice: Notice) -> bool:
        if self.deaf:
            raise ConnectionError("nobody there")
        self.said.append(notice.summary)
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yml").write_text(REGISTRY)
    (tmp_path / "policy.yml").write_text(POLICY)
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def world(folder: Path) -> Iterator[tuple[Plane, FakeSubstrate, Heard]]:
    clock, heard = FakeClock(), Heard()
    fake = FakeSubstrate(clock)
    wiring.set_fleet_actuator(fake)
    wiring.set_fleet_observer(fake)
    wiring.set_default_notifier(heard)
    environment = {"FLEET_DATA_DIR": str(folder / "data"), "FLEET_RECONCILER": "1"}
    plane = Plane(load_settings(folder, environment), clock=clock)
    wiring.reset()
    yield plane, fake, heard
    plane.stop()


def rounds(plane: Plane, count: int = 3) -> None:
    for _ in range(count):
        for name in ("fleet_reconciler", "action_executor", "worker", "notifier"):
            plane.tick(name)


@pytest.mark.req("ACT-2", "OBS-2", "RUN-1")
def test_injected_parts_serve_services_without_a_substrate_block(world: tuple[Plane, FakeSubstrate, Heard]) -> None:
    plane, fake, _ = world
    rounds(plane)
    assert fake.instances("web") == {0: True, 1: True}
    fake.crash("web", 0)
    rounds(plane)
    assert fake.instances("web") == {0: True, 1: True}
    records = plane.store.read(lambda tx: tx.outbox.list(Page()))
    assert [one.state for one in records] == [OutboxState.SUCCEEDED] * 2


@pytest.mark.req("PLB-5")
def test_notices_are_told_from_the_journal_and_again_after_a_notifier_failed(
    world: tuple[Plane, FakeSubstrate, Heard],
) -> None:
    plane, _, heard = world
    heard.deaf = True
    rounds(plane)
    assert heard.said == []
    heard.deaf = False
    rounds(plane, 1)
    assert any("start_service web" in line for line in heard.said)
    before = len(heard.said)
    rounds(plane, 2)
    assert len(heard.said) == before


@pytest.mark.req("RUN-3")
def test_every_operation_asks_for_its_role(world: tuple[Plane, FakeSubstrate, Heard]) -> None:
    plane = world[0]
    me = local_admin()
    made = plane.administration.create_token(me, name="eve", roles=("viewer",), person="eve", for_s=None)
    eve = plane.authenticate(str(made["secret"]))
    assert eve.may(Role.VIEWER)
    plane.fleet.status(eve)
    for forbidden in (
        lambda: plane.administration.freeze(eve, reason="x", for_s=None),
        lambda: plane.administration.tokens(eve),
        lambda: plane.approving.answer(eve, "A-1", decision="approved", reason="x"),
        lambda: plane.stopping.stop_services(eve, acting=plane.acting, reason="x"),
    ):
        with pytest.raises(Forbidden):
            forbidden()


@pytest.mark.req("ORC-1", "REC-14", "ACT-2")
def test_status_names_what_makes_the_picture_other_than_it_seems(folder: Path) -> None:
    (folder / "fleet.yml").write_text(
        "version: 1\nservices:\n  - name: web\n    scaling: {min: 1, max: 3, signal: cpu, target: 50}\n"
    )
    plane = Plane(load_settings(folder, {"FLEET_DATA_DIR": str(folder / "data")}), clock=FakeClock())
    told = "\n".join(plane.fleet.warnings())
    web = plane.fleet.service(local_admin(), "web")
    plane.stop()
    assert web["scaling_warning"].startswith("fleet.yml:3: no controller consumes the scaling block")
    assert "nothing will change, except what other systems do themselves" in told
    assert "the reconciler is off: nothing is proposed; what people grant is done" in told


@pytest.mark.req("ORC-1")
def test_an_interrupted_stop_of_the_services_does_not_pause_the_plane_for_ever(
    world: tuple[Plane, FakeSubstrate, Heard],
) -> None:
    plane, fake, _ = world
    rounds(plane)
    plane.stopping.stop_services(local_admin(), acting=plane.acting, reason="down")
    fake.crash("web", 0)
    rounds(plane)
    assert fake.instances("web") == {0: False, 1: True}
    assert any("being stopped" in line for line in plane.fleet.warnings())
    plane.clock.advance(61)  # type: ignore[attr-defined]
    rounds(plane)
    assert fake.instances("web") == {0: True, 1: True}


@pytest.mark.req("ACT-1", "REC-5")
def test_a_kind_that_no_actuator_serves_is_not_decided_again_and_again(
    world: tuple[Plane, FakeSubstrate, Heard],
) -> None:
    plane, fake, _ = world
    fake.kinds = frozenset()
    rounds(plane, 5)
    assert plane.store.read(lambda tx: tx.decisions.list(Page())) == []
    assert "not served" in plane.reconciler.standings()["web"].reason


@pytest.mark.req("POL-12")
def test_freezes_with_long_reasons_cannot_stop_a_pass(world: tuple[Plane, FakeSubstrate, Heard]) -> None:
    plane, _, _ = world
    with pytest.raises(Misconfigured, match="too long"):
        plane.administration.freeze(local_admin(), reason="x" * 501, for_s=None)
    for _ in range(12):
        plane.administration.freeze(local_admin(), reason="x" * 500, for_s=None)
    report = plane.tick("fleet_reconciler")
    assert isinstance(report, ReconcileReport)
    assert report.denied


@pytest.mark.req("RUN-16")
def test_a_pass_by_hand_has_the_name_of_its_work_and_one_that_does_not_run_is_named(
    world: tuple[Plane, FakeSubstrate, Heard],
) -> None:
    plane, _, _ = world
    down = FleetEvent(
        source="test", severity=Severity.INFO, status="firing", phase=Phase.FIRING, subject="web", fingerprint="f"
    )
    [told] = plane.store.transact("event", lambda tx: tx.events.put([down]))
    assert plane.tick("deploy_watch") == 0
    assert plane.tick("fleet_event_triage") == 1
    assert plane.store.read(lambda tx: tx.events.get(told.seq)).remediation_status == "triaged"
    with pytest.raises(NotFound, match="no pass 'fleet_autoscaler'") as caught:  # it is off
        plane.tick("fleet_autoscaler")
    assert "fleet_reconciler" in caught.value.hint


@pytest.mark.req("HLT-1", "REC-1")
def test_without_a_reconciler_nothing_is_proposed_and_health_still_tells_of_a_broken_registry(folder: Path) -> None:
    (folder / "fleet.yml").write_text("services: [")
    fake = FakeSubstrate(FakeClock())
    wiring.set_fleet_observer(fake)
    wiring.set_fleet_actuator(fake)
    plane = Plane(load_settings(folder, {"FLEET_DATA_DIR": str(folder / "data")}), clock=FakeClock())
    wiring.reset()
    plane.tick("supervision")
    envelope, ready = plane.fleet.health()
    assert "fleet_reconciler" not in plane.loop.states
    plane.stop()
    assert (envelope["status"], ready) == ("unavailable", False)
    assert fake.log == []
