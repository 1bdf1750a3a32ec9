"""Which service an event is about."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.domain.event_matching import Match, Matcher, read_match
from fleetwarden.domain.events import Phase
from fleetwarden.domain.located import Findings
from tests.unit.events.test_correlation import an_event


def read(text: str) -> tuple[tuple[Match, ...], list[str]]:
    findings = Findings()
    return read_match(findings, yaml_tree.parse(text, "fleet.yml")), [one.reason for one in findings.problems]


def meant(declared: dict[str, str], labels: dict[str, str], **over: Any) -> str | None:
    matcher = Matcher((name, read(text)[0] if text else ()) for name, text in declared.items())
    return matcher.service_of(an_event(Phase.FIRING, service=None, labels=labels, **{"subject": "x", **over}))


@pytest.mark.req("EVT-4")
def test_any_entry_may_fit_and_all_of_its_labels_have_to() -> None:
    declared = {"shop": '[{job: store, env: prod}, {monitor: "shop *"}]', "other": ""}
    assert meant(declared, {"job": "store", "env": "prod"}) == "shop"
    assert meant(declared, {"job": "store"}) is None
    assert meant(declared, {"job": "store", "env": "test"}) is None
    assert meant(declared, {"monitor": "shop front"}) == "shop"
    assert meant(declared, {"monitor": "Shop front"}) is None


@pytest.mark.req("EVT-4")
def test_without_an_entry_a_label_that_equals_a_services_name_decides() -> None:
    declared = {"shop": "", "db": ""}
    assert meant(declared, {"job": "shop"}) == "shop"
    assert meant(declared, {"service": "db", "job": "shop"}) == "db"
    assert meant(declared, {"container": "nothing"}, subject="db") == "db"
    assert meant(declared, {"instance": "shop"}) is None
    assert meant(declared, {"job": "SHOP"}) is None


@pytest.mark.req("EVT-4")
def test_an_entry_outranks_a_name_and_the_more_literal_of_two() -> None:
    declared = {"shop": '[{job: "web-*"}]', "cart": '[{job: "web-cart*"}]', "web-cart-1": ""}
    assert meant(declared, {"job": "web-cart-1"}) == "cart"
    assert meant(declared, {"job": "web-front"}) == "shop"


@pytest.mark.req("EVT-4")
def test_what_could_be_about_two_is_about_none() -> None:
    declared = {"a": "[{team: x}]", "b": "[{team: x}]"}
    assert meant(declared, {"team": "x", "job": "a"}) is None


@pytest.mark.req("EVT-4")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "a list of labels such as"),
        ("[]", "an empty list"),
        ("[1]", "match[0]: "),
        ("[{}]", "match[0]: "),
        ("[{job: 1}]", "match[0].job: "),
        ('[{job: "*"}]', "fits every event"),
        ('[{job: "a["}]', "never closed"),
    ],
)
def test_a_bad_entry_is_refused_with_its_reason(text: str, why: str) -> None:
    assert any(why in one for one in read(text)[1])
