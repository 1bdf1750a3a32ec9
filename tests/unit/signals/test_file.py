"""`signals.yml`: used as a whole or not at all, and every problem is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.adapters.files.signals import SignalsFile
from fleetwarden.adapters.files.yaml_tree import parse
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_file import SignalsDocument, read_signals_file
from fleetwarden.domain.signal_query import credential_problem
from fleetwarden.lab.prometheus_recordings import source_of

GOOD = """\
version: 1
sources:
  main: {url: "http://127.0.0.1:9090/"}
signals:
  waiting: {source: main, kind: queue, query: jobs_waiting, by: service, aggregation: fleet_total, unit: jobs}
  sent: {source: pushed, kind: cpu, aggregation: per_replica, unit: percent, max_age_s: 30, services: [web]}
attestation:
  shop-1: {keys: [{id: k1, hmac_file: a.key}, {id: k2, ed25519: "AAAA"}]}
"""


def read(text: str, *, default_url: str = "") -> SignalsDocument:
    return read_signals_file(parse(text, "signals.yml"), default_url=default_url)


@pytest.mark.req("SIG-1", "SIG-6")
def test_what_is_declared_is_in_force() -> None:
    document = read(GOOD)
    assert document.sources["main"].url == "http://127.0.0.1:9090"
    waiting, sent = document.definitions["waiting"], document.definitions["sent"]
    assert (waiting.source, waiting.query, waiting.by, waiting.max_age_s, waiting.line) == (
        "main",
        "jobs_waiting",
        "service",
        120.0,
        5,
    )
    assert (sent.source, sent.query, sent.max_age_s, sent.services) == ("pushed", "", 30, ("web",))
    assert [one.id for one in document.keys["shop-1"]] == ["k1", "k2"]


@pytest.mark.req("SIG-1")
def test_a_signal_answers_for_its_services_only() -> None:
    document = read(GOOD)
    assert document.definition("api", "sent") is None
    assert document.definition("web", "sent") is not None
    assert document.definition("api", "waiting") is not None
    assert document.definition("api", "nothing") is None


@pytest.mark.req("SIG-1")
def test_the_prometheus_of_the_settings_is_the_source_where_none_is_named() -> None:
    text = "signals:\n  a: {kind: cpu, query: up, by: service, aggregation: fleet_total, unit: x}\n"
    assert read(text, default_url="http://127.0.0.1:9").definitions["a"].source == "prometheus"
    with pytest.raises(Misconfigured, match="no source"):
        read(text)


@pytest.mark.req("SIG-1", "SIG-4", "SEC-1")
@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("version: 1", "version: 2", 1, "this release reads version: 1"),
        ("version: 1", "versoin: 1", 1, "versoin"),
        ("http://127.0.0.1:9090/", "http://me:pw@127.0.0.1", 3, "ends up in logs"),
        ("http://127.0.0.1:9090/", "http://127.0.0.1?x=1", 3, "no query"),
        ("http://127.0.0.1:9090/", "file:///etc/passwd", 3, "no address"),
        ("  main: {url", "  pushed: {url", 3, "needs no entry"),
        ("  main: {url", "  local: {url", 3, "own gauges"),
        ("source: main", "source: local", 5, "none of main, pushed"),
        ("source: main", "source: mian", 5, "'mian' is none of main, pushed"),
        ("kind: queue", "kind: quene", 5, "kind"),
        ("kind: queue, ", "", 5, "kind is missing"),
        (", unit: jobs", "", 5, "unit is missing"),
        ("query: jobs_waiting, ", "", 5, "query is missing"),
        ("query: jobs_waiting", 'query: "sum(jobs_waiting)"', 5, "age_of is missing"),
        ("query: jobs_waiting", 'query: "job:jobs_waiting:sum"', 5, "for recording rules"),
        (", by: service", "", 5, "exactly one service"),
        ("by: service", "by: no-label", 5, "no label"),
        ("max_age_s: 30", "max_age_s: 121", 6, "max_age_s"),
        ("max_age_s: 30", "query: up", 6, "not queried"),
        ("services: [web]", "services: []", 6, "a list of services"),
        ("services: [web]", "services: [../x]", 6, "services"),
        ("hmac_file: a.key", "hmac_file: a.key, ed25519: x", 8, "exactly one of"),
        ("id: k2", "id: k1", 8, "same id"),
        ('{keys: [{id: k1, hmac_file: a.key}, {id: k2, ed25519: "AAAA"}]}', "{keys: []}", 8, "1 to 8 keys"),
        ("query: jobs_waiting", "query: 'jobs{password=\"x\"}'", 5, "credential"),
        ("by: service", "by: service, age_of: 'up{api_key=\"x\"}'", 5, "credential"),
        ("  sent:", "  waiting:", 6, "twice"),
        ("  sent:", "  'a b':", 6, "no name"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in GOOD
    with pytest.raises(Misconfigured) as refused:
        read(GOOD.replace(old, new, 1))
    problems = [str(one) for one in refused.value.problems]
    assert any(said in one and f"signals.yml:{line}" in one for one in problems), problems


@pytest.mark.req("SIG-1")
def test_a_file_that_cannot_be_used_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "signals.yml"
    file = SignalsFile(tmp_path)
    assert file.current() == SignalsDocument()
    path.write_text("- no mapping\n", encoding="utf-8")
    assert not file.refresh()
    assert file.stays.startswith("none is in force")
    path.write_text(GOOD, encoding="utf-8")
    assert file.refresh()
    good = file.current()
    assert not file.refresh()
    path.write_text(GOOD.replace("kind: queue", "kind: quene"), encoding="utf-8")
    assert not file.refresh()
    assert file.current() == good
    assert file.problems
    assert file.stays == "the last good one stays in force"
    path.write_text("- no mapping\n", encoding="utf-8")
    assert not file.refresh()
    assert file.current() == good
    path.unlink()
    assert file.refresh()
    assert (file.current(), file.problems) == (SignalsDocument(), ())


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_deployment_tightens_caps() -> None:
    assert read(GOOD).caps == GLOBAL_CAPS
    assert (GLOBAL_CAPS.timeout_s, GLOBAL_CAPS.window_s) == (10.0, 86_400.0)
    assert (GLOBAL_CAPS.page_size, GLOBAL_CAPS.items, GLOBAL_CAPS.guard_sources) == (1_000, 1_000_000, 65_536)
    tight = read(GOOD + "caps: {timeout_s: 2.5, window_s: 60, page_size: 10, items: 100, guard_sources: 5}\n").caps
    assert tight == SignalCaps(timeout_s=2.5, window_s=60.0, page_size=10, items=100, guard_sources=5)
    assert read(GOOD + "caps: {page_size: 1000}\n").caps == GLOBAL_CAPS


@pytest.mark.req("SIG-2", "SIG-9")
@pytest.mark.parametrize(
    ("caps", "said"),
    [
        ("{timeout_s: 10.5}", "never loosen"),
        ("{window_s: 86401}", "never loosen"),
        ("{page_size: 1001}", "never loosen"),
        ("{items: 1000001}", "never loosen"),
        ("{guard_sources: 65537}", "never loosen"),
        ("{page_size: 0}", "out of range"),
        ("{page_size: 1.5}", "whole number"),
        ("{timeout_s: .nan}", "out of range"),
        ("{timeout_s: .inf}", "never loosen"),
        ("{timeout_s: '5'}", "text"),
        ("{page: 5}", "unknown key"),
        ("[1]", "a mapping"),
    ],
)
def test_a_looser_or_wrong_cap_is_refused_with_its_line(caps: str, said: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        read(f"{GOOD}caps:\n  {caps}\n")
    [problem] = refused.value.problems
    assert (problem.file, problem.line) == ("signals.yml", 10)
    assert said in problem.reason


@pytest.mark.req("SIG-4")
def test_what_looks_like_a_credential_is_found_in_a_time_that_grows_with_the_text() -> None:
    """A thousand times the text, and no more than a thousand times the steps: a backtracking search would never end."""
    assert credential_problem("://" + ":" * 200_000) is None
    assert credential_problem("http://bot:hunter2@host/x") is not None


@pytest.mark.req("ASC-14", "SEC-1")
@pytest.mark.parametrize("url", ["http://u:hunter2@127.0.0.1:1", "http://127.0.0.1:1/?token=hunter2"])
def test_a_backtest_takes_no_address_with_a_secret_and_does_not_repeat_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as raised:
        source_of(url, SignalsDocument(), tmp_path)
    assert "hunter2" not in str(raised.value)
