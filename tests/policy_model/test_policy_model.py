"""Random cases against the model (more by `python -m tests.policy_model`), and proof that the model notices faults."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from fleetwarden.domain import budgets, policy, policy_document
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.policy_rules import Rule, RuleIndex
from tests.policy_model.comparing import compare
from tests.policy_model.worlds import CASES_A_WORLD

FULL = os.environ.get("FLEETWARDEN_TEST_DEPTH", "quick") == "full"
CASES = 60_000 if FULL else 5_200
BLOCKS = 8  # that run side by side
VERDICTS = {"allow ok", "allow_notify ok", "queue_approval tier", "queue_approval blast", "queue_approval window"}
VERDICTS |= {"queue_approval min_healthy", "deny structure", "deny freeze", "deny tier", "deny rate", "deny storm"}


@pytest.mark.req("POL-2", "POL-3", "POL-4", "POL-5", "POL-14", "POL-19", "POL-21")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_cases_are_decided_as_the_model_says(block: int) -> None:
    worlds = CASES // BLOCKS // CASES_A_WORLD
    done = compare(block * worlds, (block + 1) * worlds)
    assert done.differences == []
    assert done.cases == CASES // BLOCKS
    assert set(done.met) >= VERDICTS - (set() if FULL else {"queue_approval window", "queue_approval blast"})


def _selectors_do_not_narrow(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rule, "selects", lambda self, request: True)


def _finals_bind_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RuleIndex, "matching", lambda self, request: ())


def _a_use_at_the_edge_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(budgets, "SECOND", SECOND + 1)


def _the_loosest_of_what_binds_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "STRICTNESS", {tier: -place for place, tier in enumerate(Tier)})


def _overrides_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    real = policy_document.deciding_rule
    patch.setattr(policy, "deciding_rule", lambda policy, overrides, request: real(policy, (), request))


def _the_rules_that_ship_never_decide(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy_document, "SHIPPED", policy_document.Policy(
        rules=(), defaults=policy.SHIPPED.defaults, options=policy.SHIPPED.options, digest="", source=""))  # fmt: skip


@pytest.mark.req("POL-5")
@pytest.mark.parametrize(
    "plant",
    [
        _selectors_do_not_narrow,
        _finals_bind_nothing,
        _a_use_at_the_edge_counts,
        _the_loosest_of_what_binds_holds,
        _overrides_are_not_looked_at,
        _the_rules_that_ship_never_decide,
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert compare(0, 60).differences
