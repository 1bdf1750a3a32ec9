"""A HorizontalPodAutoscaler moves over: what is printed is accepted, means the same, and leaves nothing out unsaid."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.app.importing import Imported, imported_hpa
from fleetwarden.autoscaler import recommend
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.scaling import read_block
from fleetwarden.domain.scaling_block import HPA_BEHAVIOR, ScalingBlock

SHOP = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop, namespace: prod}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 2
  maxReplicas: 10
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}
  - type: Pods
    pods:
      metric: {name: packets-per-second}
      target: {type: AverageValue, averageValue: 1k}
  - type: Object
    object:
      metric: {name: requests-per-second}
      describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: main}
      target: {type: Value, value: 10k}
  - type: External
    external:
      metric:
        name: queue|ready
        selector: {matchLabels: {queue: jobs}}
      target: {type: AverageValue, averageValue: 1500m}
  behavior:
    scaleDown:
      stabilizationWindowSeconds: 60
      tolerance: 50m
      policies:
      - {type: Percent, value: 10, periodSeconds: 60}
status: {currentReplicas: 3, desiredReplicas: 3}
"""


def read(text: str) -> Imported:
    return imported_hpa("hpa.yml", text.encode())


def printed(made: Imported) -> ScalingBlock:
    node = yaml_tree.parse(made.text(), "printed").get("scaling")
    assert node is not None
    block = read_block(node, on_kubernetes=True)
    assert isinstance(block, ScalingBlock), block
    return block


@pytest.mark.req("ASC-15", "K8S-9")
def test_an_object_becomes_a_block_and_its_signals() -> None:
    made = read(SHOP)
    block = printed(made)
    assert (made.found.service, block.min, block.max, block.cooldown_up_s, block.cooldown_down_s) == (
        "shop",
        2,
        10,
        0,
        0,
    )
    assert [(one.signal, one.target) for one in block.signals] == [
        ("cpu", 60),
        ("packets-per-second", 1000),
        ("requests-per-second", 10_000),
        ("queue_ready", 1.5),
    ]
    meant = [(one.kind.value, one.aggregation.value, one.unit) for one in made.found.signals]
    assert meant == [
        ("cpu", "per_replica", "percent"),
        ("request", "per_replica", "items"),
        ("request", "per_replica", "items"),
        ("request", "fleet_total", "items"),
    ]
    assert block.behavior is not None
    assert block.behavior.up == HPA_BEHAVIOR.up
    assert (block.behavior.down.window_s, block.behavior.down.tolerance) == (60, 0.05)
    told = "\n".join(made.found.notes)
    for words in ("Deployment shop", "queue|ready is called queue_ready", '{"matchLabels":{"queue":"jobs"}}', "status"):
        assert words in told


@pytest.mark.req("ASC-15")
def test_what_is_left_out_is_hpas_own_default() -> None:
    text = SHOP.partition("  minReplicas")[0] + "  maxReplicas: 5\n  behavior: null\n"
    made = read(text)
    block = printed(made)
    assert (block.min, block.max, block.behavior) == (1, 5, HPA_BEHAVIOR)
    assert [(one.signal, one.target) for one in block.signals] == [("cpu", 80)]
    assert "80 % of the CPU" in made.text()


WRONG = {
    "ContainerResource": (
        "type: Resource\n    resource: {name: cpu,",
        "type: ContainerResource\n    containerResource: {name: cpu, container: app,",
        "hpa.yml:9 .*ContainerResource has no counterpart: .*that container alone",
    ),
    "an unknown field": ("minReplicas: 2", "minReplicas: 2\n  paused: true", "hpa.yml:7 .*unknown key 'paused'"),
    "an old version": ("autoscaling/v2", "autoscaling/v1", "hpa.yml:1 .*autoscaling/v2 is read here.*kubectl get"),
    "another kind": ("kind: HorizontalPodAutoscaler", "kind: List", "hpa.yml:2 .*one object"),
    "a target's other field": (
        "averageValue: 1k",
        "averageValue: 1k, value: 3",
        "target.value does not belong to a target of type AverageValue",
    ),
    "a quantity": ("averageValue: 1k", "averageValue: 1kg", "no quantity such as"),
    "a target type": ("type: Value, value: 10k", "type: Utilization, averageUtilization: 3", "Value or AverageValue"),
    "bounds": ("maxReplicas: 10", "maxReplicas: 1", "max: 1 is below min"),
    "no target": ("averageUtilization: 60", "averageUtilization: 0", "target"),
    "a rule": ("tolerance: 50m", "tolerence: 50m", "unknown key 'tolerence'.*tolerance"),
    "a policy": ("{type: Percent, value: 10, periodSeconds: 60}", "{type: Percent, value: 10}", "periodSeconds"),
}


@pytest.mark.req("ASC-15", "ORC-4")
@pytest.mark.parametrize(("old", "new", "told"), WRONG.values(), ids=WRONG)
def test_what_has_no_counterpart_is_refused_with_its_line(old: str, new: str, told: str) -> None:
    assert SHOP.count(old) == 1
    with pytest.raises(Misconfigured) as error:
        read(SHOP.replace(old, new))
    assert re.search(told, str(error.value)), str(error.value)


LETTERS = st.characters(codec="utf-8").filter(lambda char: char.isprintable() or "\0" < char < " ")
NAMES = st.text(LETTERS, min_size=1, max_size=30)
QUANTITIES = st.one_of(
    st.integers(1, 10**9),
    st.integers(1, 10**9).map(lambda n: f"{n}m"),
    st.integers(1, 10**6).map(lambda n: f"{n}Ki"),
    st.floats(0.001, 1e6).map(lambda n: f"{n:.3f}"),
)
METRICS = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("Resource"),
            "resource": st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["cpu", "memory"]),
                    "target": st.integers(1, 1000).map(lambda n: {"type": "Utilization", "averageUtilization": n}),
                }
            ),
        }
    ),
    st.tuples(NAMES, QUANTITIES, st.sampled_from(["Value", "AverageValue"])).map(
        lambda one: {
            "type": "External",
            "external": {
                "metric": {"name": one[0], "selector": {"matchLabels": {"app": one[0]}}},
                "target": {"type": one[2], one[2][0].lower() + one[2][1:]: one[1]},
            },
        }
    ),
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "stabilizationWindowSeconds": st.integers(0, 3600),
        "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
        "tolerance": st.sampled_from(["0.1", "50m", 0, 1]),
        "policies": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Pods", "Percent"]),
                    "value": st.integers(1, 1000),
                    "periodSeconds": st.integers(1, 1800),
                }
            ),
            min_size=1,
            max_size=4,
        ),
    },
)


@pytest.mark.req("ASC-15")
@given(
    low=st.integers(0, 5),
    more=st.integers(0, 50),
    metrics=st.lists(METRICS, min_size=1, max_size=5),
    behavior=st.none() | st.fixed_dictionaries({}, optional={"scaleUp": RULES, "scaleDown": RULES}),
)
def test_whatever_is_printed_is_accepted_and_says_the_same(
    low: int, more: int, metrics: list[Any], behavior: Any
) -> None:
    high = max(low + more, 1)
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "shop"},
            "minReplicas": low,
            "maxReplicas": high,
            "metrics": metrics,
            "behavior": behavior,
        },
    }
    made = read(json.dumps(body, ensure_ascii=False))
    block = printed(made)  # raises if it is not accepted
    assert (block.min, block.max, len(block.signals)) == (low, high, len(metrics))
    assert block.behavior is not None
    for direction, rules in (("scaleUp", block.behavior.up), ("scaleDown", block.behavior.down)):
        said = (behavior or {}).get(direction) or {}
        if "policies" in said:
            assert [(p.type.value, p.value, p.period_s) for p in rules.policies] == [
                (p["type"], p["value"], p["periodSeconds"]) for p in said["policies"]
            ]
        if "stabilizationWindowSeconds" in said:
            assert rules.window_s == said["stabilizationWindowSeconds"]


@pytest.mark.req("ASC-15", "ASC-3")
@given(current=st.integers(1, 40), value=st.floats(0.1, 500), target=st.integers(1, 100), total=st.booleans())
def test_a_value_and_an_average_ask_for_the_count_that_hpa_computes(
    current: int, value: float, target: int, total: bool
) -> None:
    """The published algorithm, written down once more: a ratio that multiplies the count, within 10 % none."""
    kind = "AverageValue" if total else "Value"
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "shop"},
        "minReplicas": 1,
        "maxReplicas": 100_000,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "q"},
                    "target": {"type": kind, kind[0].lower() + kind[1:]: target},
                },
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }
    made = read(json.dumps({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}))
    [signal] = made.found.signals
    told = recommend(
        dict(made.found.scaling),
        current=current,
        signals={"q": value},
        aggregation={"q": signal.aggregation.value},
    )
    ratio = value / (target * current) if total else value / target
    if abs(abs(ratio - 1.0) - 0.1) < 1e-6:
        return  # on the edge of the tolerance both are right
    quotient = current * ratio
    near = abs(quotient - round(quotient)) < 1e-6
    wanted = current if abs(ratio - 1.0) <= 0.1 else round(quotient) if near else math.ceil(quotient)
    assert told.raw == wanted
