"""What `explain` says of a block's limits is what the evaluation holds to; what nothing reads is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleetwarden.app.checking import check_policy
from fleetwarden.app.explaining import _scaling_limits, _scaling_would_change
from fleetwarden.domain.contract_file import read_unit
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.located import Findings, located
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import ScalingBlock
from fleetwarden.testing import a_service


def service(**fields: Any) -> Service:
    made = read_block(located({"max": 6, "signal": "q", "target": 10} | fields, "fleet.yml", 3), on_kubernetes=False)
    assert isinstance(made, ScalingBlock), made
    return a_service("web", scaling=made)


def limits(**fields: Any) -> dict[str, Any]:
    return {one["limit"]: one["numbers"] for one in _scaling_limits(service(**fields))}


@pytest.mark.req("ASC-12", "ASC-15")
def test_with_behavior_its_own_rates_windows_and_tolerances_are_the_limits() -> None:
    found = limits(behavior={"scaleDown": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}})
    assert "samples" not in found
    assert "step" not in found
    assert found["window"] == {"up_s": 0, "down_s": 300}
    assert found["rates"] == {"up": "max of 4 per 15 s, 100% per 15 s", "down": "10% per 60 s"}
    assert limits(behavior={"scaleDown": {"selectPolicy": "Disabled"}})["rates"]["down"] == "none"


@pytest.mark.req("ASC-12", "ASC-13")
def test_steps_in_percent_say_so_and_a_window_is_told() -> None:
    found = limits(scale_up_step="50%", stabilization_window_s=90)
    assert found["step"] == {"up": "50%", "down": 1}
    assert found["window"] == {"up_s": 90, "down_s": 90}


@pytest.mark.req("ASC-12")
def test_at_a_bound_it_is_the_bound_that_would_have_to_change() -> None:
    told: dict[str, Any] = {"scaling": {"code": "at_max", "until": None, "streak": "", "samples": 0}, "approval": None}
    assert "scaling.max" in _scaling_would_change(told, service())[0]
    told["scaling"]["code"] = "deadband"
    assert "10%" in _scaling_would_change(told, service(behavior={}))[0]


@pytest.mark.req("ORC-4")
@pytest.mark.parametrize("fields", [{"rollback": "previous"}, {"depends_on": ["db"]}, {"rollback": "later"}])
def test_what_nothing_acts_upon_is_refused_with_file_and_line(fields: dict[str, Any]) -> None:
    found = Findings()
    assert read_unit(found, located(fields, "fleet.yml", 7)) is None
    [problem] = found.problems
    assert (problem.file, problem.line) == ("fleet.yml", 7)
    assert f"unit.{next(iter(fields))}" in problem.reason
    assert read_unit(Findings(), located({"rollback": "manual"}, "fleet.yml", 7)) is not None


@pytest.mark.req("POL-3")
def test_a_policy_check_says_which_services_it_could_not_hold_against_the_policy(tmp_path: Path) -> None:
    policy, fleet = tmp_path / "policy.yml", tmp_path / "fleet.yml"
    policy.write_text("version: 1\noptions: {watch_scale_down: true}\n")
    assert check_policy(policy).warnings == ()
    fleet.write_text("version: 1\nservices:\n  - name: web\n  - nam: db\n")
    told = check_policy(policy).warnings
    assert {(Path(one.file).name, one.line) for one in told} == {("fleet.yml", 4)}
    fleet.write_text("version: [\n")
    assert all("fleet.yml" in one.file for one in check_policy(policy).warnings)
    assert check_policy(policy).warnings
