"""events.yml: used as a whole or not at all, every problem with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetwarden.adapters.files import yaml_tree
from fleetwarden.adapters.files.events import EventsFile
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.event_sources import EventsDocument, Polling, read_events_file


def read(text: str) -> EventsDocument:
    return read_events_file(yaml_tree.parse(text, "events.yml"))


@pytest.mark.req("EVT-3", "RUN-14")
def test_everything_that_can_be_declared() -> None:
    found = read(
        """
version: 1
sources:
  main: {kind: alertmanager, poll: {url: "http://127.0.0.1:9093", every_s: 30, bearer_file: t}}
  kuma: {kind: uptime-kuma, poll: {url: "http://kuma:3001", basic: {username: "", password_file: k}}}
  house: {kind: grafana, hmac_files: [a, b], signature_header: X-Sig, timestamp_header: X-Time}
  jobs: {kind: generic, mapping: {subject: a.b, labels: c}}
"""
    ).sources
    assert found["main"].poll == Polling(url="http://127.0.0.1:9093", every_s=30, bearer_file="t")
    assert found["kuma"].poll == Polling(url="http://kuma:3001", password_file="k")
    assert (found["house"].hmac_files, found["house"].timestamp_header) == (("a", "b"), "X-Time")
    assert found["jobs"].mapping == {"subject": "a.b", "labels": "c"}
    assert found["main"].signature_header == "X-Fleetwarden-Signature"


@pytest.mark.req("EVT-3", "RUN-14")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "a mapping with sources: is needed"),
        ("version: 2", "version: 2 is unknown"),
        ("sorces: {}", "did you mean 'sources'"),
        ("sources: {a: {}}", "sources.a: kind is missing"),
        ("sources: {a: {kind: nagios}}", "sources.a.kind"),
        ("sources: {A: {kind: generic}}", "lower case"),
        ("sources: {'a b': {kind: generic}}", "is no name"),
        ("sources: {a: {kind: generic, hmac_files: [a, b, c]}}", "at most 2 keys"),
        ("sources: {a: {kind: generic, hmac_files: []}}", "an empty list"),
        ("sources: {a: {kind: generic, signature_header: X}}", "nothing is signed"),
        ("sources: {a: {kind: grafana, mapping: {subject: x}}}", "only a source of kind generic"),
        ("sources: {a: {kind: generic, mapping: {subjet: x}}}", "did you mean 'subject'"),
        ("sources: {a: {kind: grafana, poll: {url: 'http://x'}}}", "can be asked"),
        ("sources: {a: {kind: alertmanager, poll: {}}}", "poll"),
        ("sources: {a: {kind: alertmanager, poll: {url: 'http://u:p@x'}}}", "a password in an address"),
        ("sources: {a: {kind: alertmanager, poll: {url: 'http://x', every_s: 1}}}", "every_s"),
        ("sources: {a: {kind: alertmanager, poll: {url: 'http://x', basic: {username: u}}}}", "password_file"),
    ],
)
def test_a_mistake_refuses_the_file_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(Misconfigured) as told:
        read(text)
    assert why in str(told.value)
    assert "events.yml:1" in str(told.value)


@pytest.mark.req("RUN-14")
def test_a_file_that_cannot_be_used_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "events.yml"
    file = EventsFile(tmp_path)
    assert file.current().sources == {}
    path.write_text("sources: {main: {kind: generic, hmac_files: [k]}}")
    assert file.refresh()
    path.write_text("sources: {main: {kind: generc}}")
    assert not file.refresh()
    assert list(file.current().sources) == ["main"]
    assert "did you mean 'generic'" in str(file.problems[0])
    path.unlink()
    assert file.refresh()
    assert (file.current().sources, file.problems) == ({}, ())
