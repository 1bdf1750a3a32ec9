"""The policy that ships is one and the same as constant, as file and as records."""

from __future__ import annotations

from importlib.resources import files

import pytest

from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.policy import SHIPPED
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from tests.unit.policy.ledgers import policy_of


@pytest.mark.req("POL-4")
def test_the_file_in_the_package_is_byte_for_byte_the_embedded_text() -> None:
    shipped = files("fleetwarden").joinpath("data", "action-policy.default.yml").read_bytes()
    assert shipped == SHIPPED_TEXT.encode()


@pytest.mark.req("POL-4", "POL-19")
def test_the_text_says_what_the_records_say() -> None:
    policy = policy_of(SHIPPED_TEXT)

    def without_places(rules: object) -> object:
        return [{key: value for key, value in rule.items() if key != "where"} for rule in rules]  # type: ignore[attr-defined]

    assert policy.warnings == ()
    assert policy.defaults.plain() == SHIPPED.defaults.plain()
    assert policy.options == SHIPPED.options
    assert without_places(policy.plain()["rules"]) == without_places(SHIPPED.plain()["rules"])


@pytest.mark.req("POL-4")
def test_its_digest_is_that_of_the_text() -> None:
    assert SHIPPED.digest == digest(SHIPPED_TEXT.encode())


@pytest.mark.req("POL-19", "POL-4")
def test_it_allows_by_itself_only_what_changes_nothing() -> None:
    assert {rule.kind: rule.tier for rule in SHIPPED.rules} == {"diagnose": "auto", "noop": "auto", "notify": "auto"}
    assert SHIPPED.defaults.plain() == {
        "tier": "approval_required",
        "rate_limit": {"max": 3, "window_s": 3600},
        "blast_radius": {"max_targets": 3, "window_s": 3600},
    }
    assert SHIPPED.plain()["options"] == {
        "watch_scale_down": False,
        "allow_self_approval": False,
        "approval_expires_s": 86_400,
        "approval_warns_s": 3_600,
        "event_max_age_s": 900,
    }
