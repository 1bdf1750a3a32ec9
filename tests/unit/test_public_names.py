"""The public modules, used as a user would: each name is there, and does what its docstring says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from fleetwarden import autoscaler, contract, notify, signals, wiring
from fleetwarden.app import injection
from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.settings import load_settings
from fleetwarden.testing import FakeClock, FakeSubstrate

NAMES = {
    "policy": ("ActionPolicy", "ActionRequest", "ActionDecision", "ActionApproval"),
    "actuation": ("FleetActuator", "DryRunActuator", "ActionExecution"),
    "outbox": ("ActionOutboxStore",),
    "observation": ("FleetObserver",),
    "signals": ("ScalingSignalProvider", "SingleSignalProvider", "LocalGauges"),
    "signal_authority": ("SignalAuthenticator", "SignalPage", "SignalSummary", "SignalDecisionEvidence", "SignalQuery",
                         "SignalReader", "PagedSignals"),
    "contract": ("ResourcePool", "WorkloadClass", "ScaleUnit", "SignalSummaryRef", "ScaleIntent", "ScaleDecision",
                 "ScaleExecution", "ObservedOutcome", "LeaseFence", "ControllerRegistration", "FailureDomain"),
    "autoscaler": ("autoscale_fleet", "fleet_autoscale_subscription", "AutoscaleEvaluation", "recommend"),
    "reconciler": ("ReconcileReport",),
    "health": ("FleetHealthEvidence",),
    "notify": ("Notifier", "Notice", "send_notification", "set_default_notifier"),
    "promotion": ("GovernedAutoMerger",),
    "playbooks": ("register_playbook", "escalate_repeated_failure"),
    "watch": ("watch_deploy", "run_deploy_watch"),
    "wiring": ("set_fleet_actuator", "set_fleet_observer", "set_scaling_signal_provider", "set_default_notifier"),
}  # fmt: skip


@pytest.mark.req("RUN-16")
@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_every_name_is_there_and_says_what_it_is(module: str, name: str) -> None:
    found = getattr(import_module(f"fleetwarden.{module}"), name)
    assert name in import_module(f"fleetwarden.{module}").__all__
    assert (found.__doc__ or "").strip()


class Constant:
    """A provider of one's own: every service has 45 items to do."""

    name = "constant"

    def signal_values(self, pairs: Sequence[signals.Pair], at: int) -> Mapping[signals.Pair, signals.Reading]:
        return {
            pair: signals.Sample(
                service=pair.service,
                signal=pair.signal,
                value=45,
                source=self.name,
                aggregation=signals.Aggregation.FLEET_TOTAL,
                unit="items",
                scope=signals.SignalScope.SERVICE,
                observed_at=at,
            )
            for pair in pairs
        }


@pytest.mark.req("RUN-16", "SGP-2", "ASC-1")
def test_a_provider_of_ones_own_drives_a_tick_by_hand(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(
        "version: 1\nservices: [{name: web, scaling: {min: 1, max: 6, signal: q, target: 10, scale_up_step: 9}}]\n"
    )
    (tmp_path / "policy.yml").write_text(
        "version: 1\nrules: [{kind: '*_service', target: '*', tier: auto, rate_limit: {max: 99, window_s: 60}}]\n"
    )
    (tmp_path / "data").mkdir()
    clock = FakeClock()
    fake = FakeSubstrate(clock)
    fake.boot("web")
    wiring.set_scaling_signal_provider(Constant())
    try:
        on = {"FLEET_DATA_DIR": str(tmp_path / "data"), "FLEET_RECONCILER": "1", "FLEET_AUTOSCALER": "1"}
        plane = Plane(load_settings(tmp_path, on), actuators={"": fake}, observers=[fake], clock=clock)
    finally:
        wiring.reset()
    try:
        subscription = autoscaler.fleet_autoscale_subscription(plane)
        assert subscription is not None
        assert (subscription.name, subscription.interval_s) == ("fleet_autoscaler", 60.0)
        plane.tick("fleet_reconciler")
        report = autoscaler.autoscale_fleet(plane)
        assert report is not None
        assert [(one.service, one.desired, one.answer) for one in report.verdicts] == [("web", 5, "accepted")]
        plane.tick("fleet_reconciler")
        plane.tick("action_executor")
        assert len(fake.instances("web")) == 5
    finally:
        plane.stop()


@pytest.mark.req("RUN-16", "CON-5")
def test_a_catalogue_is_checked_as_a_whole() -> None:
    pool = contract.ResourcePool(name="edge", capacity=4, failure_domain="hall")
    unit = contract.ScaleUnit(
        name="web", service="web", workload="api", min_replicas=1, max_replicas=9,
        quota=contract.UnitQuota(max_units=9), failure_domain="hall",
    )  # fmt: skip
    workload = contract.WorkloadClass(
        name="api", tenant="shop", workload="api", concurrency=1, quota=contract.UnitQuota(max_units=9), pool="edge"
    )
    made = contract.Catalogue.of(
        pools={"edge": pool}, workloads={"api": workload}, domains={"hall": contract.FailureDomain(name="hall")},
        units={"web": unit}, registrations=contract.registrations_for(unit),
    )  # fmt: skip
    assert {one.code for one in contract.check(made)} == {"capacity", "quota"}


class Pager:
    """A notifier of one's own that fails at its second notice."""

    name = "pager"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def notify(self, notice: notify.Notice) -> bool:
        self.heard.append(notice.summary)
        if len(self.heard) > 1:
            raise RuntimeError("no line")
        return True


@pytest.mark.req("RUN-16")
def test_a_notice_of_ones_own_goes_where_a_planes_notices_go() -> None:
    pager = Pager()
    told = notify.Notice(severity="warning", subject="shop", summary="the till is open")
    try:
        assert notify.send_notification(told)  # to the log, while nothing was set
        notify.set_default_notifier(pager)
        assert notify.send_notification(told)
        assert not notify.send_notification(told)  # a delivery that fails raises nothing
    finally:
        injection.reset()
    assert pager.heard == ["the till is open"] * 2
