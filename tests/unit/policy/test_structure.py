"""A malformed request is refused before any rule is asked, and the refusal says what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.domain import structure
from fleetwarden.domain.actions import KNOWN_KINDS, Kind, Source
from fleetwarden.domain.structure import MAX_PARAMS_BYTES
from tests.unit.policy.ledgers import asking

NEEDED: dict[str, dict[str, Any]] = {Kind.SCALE: {"replicas": 2}, Kind.DEPLOY: {"version": "1.1"}}
MAY_ASK: dict[str, set[str]] = {
    Source.RECONCILER: {"restart_service", "scale_service", "stop_service", "start_service", "deploy_service"},
    Source.AUTOSCALER: {"scale_service"},
    Source.PLAYBOOK: {"restart_service", "investigate_resource_pressure", "failure_gap"},
    Source.DEPLOY_WATCH: {"rollback_service", "scale_service"},
    Source.OPERATOR: set(KNOWN_KINDS),
    Source.API: set(KNOWN_KINDS),
}


def said(kind: object, target: object = "web", params: object = None, **fields: Any) -> str | None:
    return structure.check(asking(kind, target, params, **fields))  # type: ignore[arg-type]


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("kind", sorted(KNOWN_KINDS))
@pytest.mark.parametrize("source", list(Source))
def test_each_source_may_ask_for_its_own_kinds_only(source: Source, kind: Kind) -> None:
    answer = said(kind, params=NEEDED.get(kind), source=source)
    if kind in MAY_ASK[source]:
        assert answer is None
        assert structure.may_ask(source, kind)
    else:
        assert answer is not None
        assert answer.startswith(f"the {source} may not ask for {kind}")
        assert not structure.may_ask(source, kind)


@pytest.mark.req("POL-13", "POL-11")
@pytest.mark.parametrize("kind", ["merge_promotion", "redeploy_stack", "secret.delete", "x"])
def test_an_outside_requester_may_ask_for_kinds_of_its_own_and_our_controllers_may_not(kind: str) -> None:
    assert said(kind, params={"anything": [1, {"goes": None}]}) is None
    assert said(kind, source="operator") is None
    assert "does not know" in str(said(kind, source="reconciler"))


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("kind", ["", "restart *", "*", "9lives", "a" * 65, "två", 7, None, ["restart_service"]])
def test_what_can_name_no_kind_is_refused(kind: object) -> None:
    assert "is no kind" in str(said(kind))


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("source", ["", "cron", 7, None, ["api"]])
def test_an_unknown_source_is_refused(source: object) -> None:
    assert "unknown source" in str(said("restart_service", source=source))


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("value", [True, False, "3", 3.0, -1, None, [3], 100_001, 10**30])
@pytest.mark.parametrize("name", ["replicas", "from_replicas"])
def test_a_count_is_a_whole_number_of_at_least_0_and_never_text_or_true(name: str, value: object) -> None:
    answer = str(said("scale_service", params={"replicas": 1} | {name: value}))
    assert repr(name) in answer
    assert "whole number from 0 to 100000" in answer


@pytest.mark.req("POL-13")
@pytest.mark.parametrize("replicas", [0, 1, 100_000])
def test_every_count_in_range_passes(replicas: int) -> None:
    assert said("scale_service", params={"replicas": replicas}) is None


@pytest.mark.req("POL-13")
def test_a_scale_without_a_count_is_refused_and_never_read_as_one() -> None:
    assert "needs the param 'replicas'" in str(said("scale_service"))
    assert "needs the param 'replicas'" in str(said("scale_service", params={"from_replicas": 3}))


@pytest.mark.req("POL-13")
def test_a_deploy_needs_a_version_or_an_image() -> None:
    assert "'version' or 'image'" in str(said("deploy_service"))
    assert "'version' or 'image'" in str(said("deploy_service", params={"irreversible": True}))
    assert said("deploy_service", params={"version": "1.1"}) is None
    assert said("deploy_service", params={"image": "shop@sha256:1"}) is None


@pytest.mark.req("POL-13")
@pytest.mark.parametrize(
    ("kind", "params", "hint"),
    [
        ("scale_service", {"replicas": 1, "replica": 1}, "did you mean 'replicas'?"),
        ("restart_service", {"zzz": 1}, "it takes replica"),
        ("stop_service", {"replicas": 0}, "takes no params"),
        ("deploy_service", {"version": "1", "versoin": "2"}, "did you mean 'version'?"),
        ("start_service", {"count": 1}, "it takes replicas"),
    ],
)
def test_a_param_that_the_kind_does_not_have_is_refused(kind: str, params: dict[str, Any], hint: str) -> None:
    assert hint in str(said(kind, params=params))


@pytest.mark.req("POL-13")
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("restart_service", {"replica": -1}),
        ("restart_service", {"replica": True}),
        ("restart_service", {"replica": "0"}),
        ("start_service", {"replicas": 0}),
        ("deploy_service", {"version": 1.1}),
        ("deploy_service", {"version": " "}),
        ("deploy_service", {"version": "x" * 513}),
        ("deploy_service", {"version": "1", "irreversible": "yes"}),
        ("rollback_service", {"version": None}),
        ("scale_service", {"replicas": 1, "direction": "sideways"}),
        ("scale_service", {"replicas": 1, "value": float("nan")}),
        ("scale_service", {"replicas": 1, "target": True}),
    ],
)
def test_a_param_of_the_wrong_type_or_out_of_range_is_refused(kind: str, params: dict[str, Any]) -> None:
    name = list(params)[-1]
    assert f"param {name!r} of {kind} is" in str(said(kind, params=params))


@pytest.mark.req("ASC-20", "REC-10")
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (
            "scale_service",
            {"replicas": 3, "from_replicas": 2, "direction": "up", "signal": "jobs", "value": 190.5, "target": 100},
        ),
        ("restart_service", {"replica": 0}),
        ("restart_service", {}),
        ("start_service", {"replicas": 2}),
        ("stop_service", {}),
        ("rollback_service", {"version": "1.0"}),
        ("notify", {"text": "hello"}),
    ],
)
def test_what_the_product_itself_asks_for_passes(kind: str, params: dict[str, Any]) -> None:
    assert said(kind, params=params) is None


@pytest.mark.req("POL-16")
@pytest.mark.parametrize("target", ["", " ", "\t", None, 3, ["web"]])
def test_an_empty_target_selects_nothing(target: object) -> None:
    assert "an empty selection selects nothing" in str(said("restart_service", target))


@pytest.mark.req("POL-16")
@pytest.mark.parametrize("target", ["*", "web-*", "web-?", "web[12]"])
def test_a_pattern_is_no_target(target: str) -> None:
    assert "is a pattern" in str(said("restart_service", target))


@pytest.mark.parametrize("target", [" web", "web ", "we\nb", "we\x00b", "x" * 257])
def test_an_unprintable_or_endless_target_is_refused(target: str) -> None:
    assert said("restart_service", target) is not None


@pytest.mark.parametrize("target", ["web", "db-1.eu", "group/app", "två räksmörgåsar", "x" * 256])
def test_any_other_name_can_be_a_target(target: str) -> None:
    assert said("merge_promotion", target) is None


def test_a_direction_is_up_or_down_or_none() -> None:
    assert said("stop_service", direction="down") is None
    assert "neither up nor down" in str(said("stop_service", direction="left"))


@pytest.mark.parametrize("params", [[], "replicas", 3])
def test_params_are_a_mapping(params: object) -> None:
    assert "params are a mapping" in str(said("restart_service", params=params))


@pytest.mark.req("POL-13")
def test_params_that_could_not_be_stored_whole_are_refused_with_the_limit_named() -> None:
    overhead = len('{"note":""}')
    fits, too_long = ({"note": "x" * (MAX_PARAMS_BYTES - overhead + extra)} for extra in (0, 1))
    assert said("merge_promotion", params=fits) is None
    assert (
        said("merge_promotion", params=too_long)
        == f"params take {MAX_PARAMS_BYTES + 1} bytes as JSON, the limit is 8192"
    )


@pytest.mark.req("POL-16")
def test_only_a_deploy_can_be_marked_as_irreversible() -> None:
    marked = {"version": "2", "irreversible": True}
    assert structure.is_irreversible(asking("deploy_service", "web", marked))
    assert not structure.is_irreversible(asking("deploy_service", "web", marked | {"irreversible": False}))
    assert not structure.is_irreversible(asking("deploy_service", "web", {"version": "2"}))
    assert not structure.is_irreversible(asking("merge_promotion", "web", marked))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200_000) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.req("POL-13")
@given(
    kind=st.sampled_from([*KNOWN_KINDS, "own"]) | JSON,
    target=st.text(max_size=6) | JSON,
    params=st.dictionaries(st.sampled_from(["replicas", "replica", "version", "image", "x"]), JSON, max_size=3) | JSON,
    source=st.sampled_from([*Source, "x"]) | JSON,
)
def test_nothing_that_passes_carries_a_wrong_count(
    kind: object, target: object, params: object, source: object
) -> None:
    answer = said(kind, target, params, source=source)
    if answer is None and kind in KNOWN_KINDS and isinstance(params, dict):
        assert isinstance(target, str)
        assert target.strip()
        free = {Kind.DIAGNOSE, Kind.NOTIFY, Kind.NOOP, Kind.INVESTIGATE}
        for name in () if kind in free else {"replicas", "replica"} & params.keys():
            assert type(params[name]) is int
            assert params[name] >= 0
        assert kind != Kind.SCALE or "replicas" in params
