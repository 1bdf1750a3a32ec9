"""The `scaling:` block: valid as a whole or not used at all, and never a reason to scale by surprise."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain.fleet import ScalingBlock, ScalingError
from fleetwarden.domain.located import located
from fleetwarden.domain.scaling import controller_mode, read_block

VALID: dict[str, Any] = {"max": 3, "signal": "cpu", "target": 50}


def block(value: object, *, on_kubernetes: bool = False) -> ScalingBlock | ScalingError:
    return read_block(located(value, "fleet.yml", 7), on_kubernetes=on_kubernetes)


@pytest.mark.req("ASC-2", "ASC-20")
@pytest.mark.parametrize(
    "value",
    [
        VALID,
        VALID | {"min": 0},
        VALID | {"max": 100_000},
        VALID | {"cooldown_s": 86_400},
        VALID | {"cooldown_s": 0},
        VALID | {"deadband": 1},
        VALID | {"target": 0.5},
        VALID | {"scale_up_step": 100_000, "scale_down_step": 2},
        VALID | {"scale_up_stabilization_samples": 60, "scale_down_stabilization_samples": 1},
        VALID | {"stabilization_window_s": 300, "cooldown_up_s": 10, "cooldown_down_s": 20.5},
        VALID | {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}, "cooldown_s": 5},
        VALID | {"controller_mode": "native"},
    ],
)
def test_a_block_within_its_limits_is_kept_as_it_was_written(value: dict[str, Any]) -> None:
    kept = block(value)
    assert isinstance(kept, ScalingBlock)
    assert kept.raw == value
    assert (kept.line, kept.controller_mode) == (7, "native")


@pytest.mark.req("ASC-2", "ASC-20", "AUT-1")
@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        ({"min": 2, "max": 1, "signal": "cpu", "target": 50}, "max", "1 is below min, 2"),
        ({"min": -1, "max": 3, "signal": "cpu", "target": 50}, "min", "out of range"),
        ({"max": 0, "signal": "cpu", "target": 50}, "max", "below min, 1 (the default)"),
        ({"signal": "cpu", "target": 50}, "max", "is missing"),
        ({"max": 3, "target": 50}, "signal", "is missing"),
        ({"max": 3, "signal": "cpu"}, "target", "is missing"),
        (VALID | {"target": 0}, "target", "out of range"),
        (VALID | {"target": math.inf}, "target", "out of range"),
        (VALID | {"target": math.nan}, "target", "out of range"),
        (VALID | {"target": 1.1e12}, "target", "out of range"),
        (VALID | {"target": 10**4000}, "target", "out of range"),
        (VALID | {"target": "9" * 10_000}, "target", "a number of 10,000 digits"),
        (VALID | {"target": "50"}, "target", "write it without quotes"),
        (VALID | {"target": True}, "target", "true/false"),
        (VALID | {"scale_up_step": 0}, "scale_up_step", "out of range"),
        (VALID | {"scale_up_step": 100_001}, "scale_up_step", "out of range"),
        (VALID | {"cooldown_s": -5}, "cooldown_s", "out of range"),
        (VALID | {"cooldown_s": 86_401}, "cooldown_s", "out of range"),
        (VALID | {"deadband": 1.1}, "deadband", "out of range"),
        (VALID | {"min": True}, "min", "true/false"),
        (VALID | {"max": "lots"}, "max", "text"),
        (VALID | {"max": 3.0}, "max", "a number, a whole number from 0 to 100,000 is needed"),
        (VALID | {"max": 100_001}, "max", "out of range"),
        (VALID | {"max": None}, "max", "nothing"),
        (VALID | {"scale_down_stabilization_samples": 61}, "scale_down_stabilization_samples", "out of range"),
        (VALID | {"signal": "a b"}, "signal", "no signal's name"),
        (VALID | {"signal": 5}, "signal", "no signal's name"),
        (VALID | {"targt": 5}, "targt", "did you mean 'target'?"),
        (VALID | {"controller_mode": "hpaa"}, "controller_mode", "did you mean 'hpa'?"),
        (VALID | {"controller_mode": None}, "controller_mode", "no controller mode"),
        (VALID | {"behavior": {}, "deadband": 0.1}, "deadband", "cannot stand beside behavior"),
        (VALID | {"behavior": "fast"}, "behavior", "a mapping is needed"),
        ("not-a-mapping", "", "is text, a block such as"),
        ([VALID], "", "a list"),
    ],
)
def test_an_invalid_block_is_not_used_and_names_field_reason_and_line(value: object, field: str, reason: str) -> None:
    error = block(value)
    assert isinstance(error, ScalingError)
    assert (error.field, error.file, error.line) == (field, "fleet.yml", 7)
    assert reason in error.reason


@pytest.mark.req("AUT-1")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("native", "native"), ("external_hpa", "external_hpa"), ("external_keda", "external_keda"),
        ("hpa", "external_hpa"), ("keda", "external_keda"),
        ("HPA", None), ("external-hpa", None), ("", None), ("none", None),
    ],
)  # fmt: skip
def test_three_controllers_and_two_aliases_are_known_and_nothing_is_guessed(written: str, meant: str | None) -> None:
    assert controller_mode(written) == meant
    kept = block(VALID | {"controller_mode": written}, on_kubernetes=True)
    assert (kept.controller_mode if isinstance(kept, ScalingBlock) else None) == meant


@pytest.mark.req("AUT-1")
@pytest.mark.parametrize("mode", ["external_hpa", "external_keda", "hpa", "keda"])
def test_outside_kubernetes_nothing_external_can_write_the_count(mode: str) -> None:
    error = block(VALID | {"controller_mode": mode})
    assert isinstance(error, ScalingError)
    assert error.field == "controller_mode"
    assert "needs a service on Kubernetes" in error.reason


def test_a_doubled_key_makes_the_block_invalid() -> None:
    from fleetwarden.adapters.files.yaml_tree import parse

    error = read_block(parse("max: 3\nsignal: cpu\ntarget: 5\nmax: 4", "fleet.yml"), on_kubernetes=False)
    assert error == ScalingError(field="max", reason="stands here twice", line=4, file="fleet.yml")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
FIELDS = [
    "min",
    "max",
    "signal",
    "target",
    "deadband",
    "cooldown_s",
    "scale_up_step",
    "controller_mode",
    "behavior",
    "x",
]


@given(st.dictionaries(st.sampled_from(FIELDS), SCALARS))
def test_whatever_is_written_a_block_that_is_kept_has_bounds_that_hold(value: dict[str, Any]) -> None:
    kept = block(VALID | value)
    if isinstance(kept, ScalingBlock):
        assert 0 <= kept.raw.get("min", 1) <= kept.raw["max"] <= 100_000
        assert 0 < kept.raw["target"] <= 1e12
