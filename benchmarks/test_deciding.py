"""How long one decision takes, with its full explanation, at 10 to 10,000 rules: 80 % exact, 15 % prefix, 5 % globs.

Beside it, on the same rules and requests, cedarpy and casbin where they are installed (`make bench-deps`).  They answer
yes or no and weigh no budgets, windows or sources, so the figures are orders of magnitude and not a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.located import located
from fleetwarden.domain.policy import Situation, Verdict, decide, read_policy

SIZES = [10, 100, 1_000, 10_000]
GENERAL_MAX = 50  # general globs, however many rules
KIND = "restart_service"
NOW = 1_796_212_800_000_000
ASKED = 200
CASBIN_MODEL = """
[request_definition]
r = act, obj
[policy_definition]
p = act, obj
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.act == p.act && (r.obj == p.obj || globMatch(r.obj, p.obj))
"""


class Empty:
    """A ledger without uses."""

    def uses(self, *_: Any, **__: Any) -> Sequence[Any]:
        return ()

    def targets(self, *_: Any, **__: Any) -> Sequence[Any]:
        return ()


def patterns(count: int) -> list[tuple[str, str]]:
    """(pattern, a target that it takes)."""
    found = []
    for number in range(count):
        place = number % 20
        if place < 16:
            found.append((f"svc-{number}", f"svc-{number}"))
        elif place < 19 or number // 20 >= GENERAL_MAX:
            found.append((f"team{number}-*", f"team{number}-web"))
        else:
            found.append((f"*-{number}-?", f"shop-{number}-b"))
    return found


def asked(count: int) -> list[str]:
    chance = Random(count)
    return [chance.choice(patterns(count))[1] for _ in range(ASKED)]


@pytest.mark.benchmark(group="deciding 200 requests")
@pytest.mark.parametrize("count", SIZES)
def test_policy(benchmark: BenchmarkFixture, count: int) -> None:
    rules = [
        {"kind": KIND, "target": pattern, "tier": "auto", "rate_limit": {"max": 3, "window_s": 600}}
        for pattern, _ in patterns(count)
    ]
    policy = read_policy(located({"version": 1, "rules": rules}, "policy.yml"), text_digest="sha256:bench")
    requests = [
        ActionRequest(kind=KIND, target=target, source="reconciler", requested_by="reconciler", key="k")
        for target in asked(count)
    ]
    ledger, situation = Empty(), Situation()

    def run() -> int:
        return sum(decide(policy, (), request, ledger, situation, NOW).verdict is Verdict.ALLOW for request in requests)

    assert benchmark.pedantic(run, rounds=30, warmup_rounds=2) == ASKED


@pytest.mark.benchmark(group="deciding 200 requests")
@pytest.mark.parametrize("count", SIZES)
def test_cedarpy(benchmark: BenchmarkFixture, count: int) -> None:
    cedarpy = pytest.importorskip("cedarpy", reason="cedarpy is not installed: make bench-deps")
    text = "\n".join(
        f'permit(principal, action == Action::"{KIND}", resource == Service::"{pattern}");'
        if "*" not in pattern
        else f'permit(principal, action == Action::"{KIND}", resource) when {{ context.target like "{pattern}" }};'
        for pattern, _ in patterns(count)
        if "?" not in pattern  # its `like` knows the star only
    )
    requests = [
        {
            "principal": 'User::"reconciler"',
            "action": f'Action::"{KIND}"',
            "resource": f'Service::"{target}"',
            "context": {"target": target},
        }
        for target in asked(count)
    ]
    _few(benchmark, lambda: cedarpy.is_authorized_batch(requests, text, []), count)


@pytest.mark.benchmark(group="deciding 200 requests")
@pytest.mark.parametrize("count", SIZES)
def test_casbin(benchmark: BenchmarkFixture, count: int) -> None:
    casbin = pytest.importorskip("casbin", reason="casbin is not installed: make bench-deps")
    model = casbin.Model()
    model.load_model_from_text(CASBIN_MODEL)
    enforcer = casbin.Enforcer(model)
    enforcer.add_policies([[KIND, pattern] for pattern, _ in patterns(count)])
    targets = asked(count)[: max(1, ASKED // (count // 10))]  # the whole of it would take minutes
    benchmark.extra_info["requests"] = len(targets)
    _few(benchmark, lambda: [enforcer.enforce(KIND, target) for target in targets], count)


def _few(benchmark: BenchmarkFixture, run: Callable[[], Any], count: int) -> None:
    benchmark.extra_info["rules"] = count
    assert benchmark.pedantic(run, rounds=3)
