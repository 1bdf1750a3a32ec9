"""Samples that services push, and the plane's own metrics, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleetwarden.app.identity import Role
from tests.acceptance.http.world import ORIGIN, World

SIGNALS = """\
signals:
  waiting: {source: pushed, kind: queue, aggregation: fleet_total, unit: jobs, services: [web]}
"""


@pytest.fixture
def fed(tmp_path):
    (tmp_path / "signals.yml").write_text(SIGNALS, encoding="utf-8")
    made = World(tmp_path)
    made.substrate.boot("web", 2)
    made.look()
    yield made
    made.close()


def sent(world, **over):
    at = datetime.fromtimestamp(world.store.read(lambda tx: tx.now()) / 1e6, UTC)
    return {
        "source": "shop-1",
        "service": "web",
        "kind": "queue",
        "value": 12,
        "aggregation": "fleet_total",
        "unit": "jobs",
        "sampled_at": at.isoformat(),
        **over,
    }


def push(world, *samples):
    return world.client(Role.INGEST).post("/signals", json={"samples": list(samples)})


@pytest.mark.req("SIG-8")
def test_what_is_pushed_is_shown(fed):
    made = push(fed, sent(fed, sequence=1))
    assert (made.status_code, made.json()) == (202, {"accepted": 1})
    [shown] = fed.client().get("/signals").json()["items"]
    assert (shown["signal"], shown["service"], shown["value"], shown["fault"]) == ("waiting", "web", 12.0, None)
    assert push(fed, sent(fed, sequence=1)).status_code == 409


@pytest.mark.req("SIG-4", "SIG-8")
def test_a_refused_batch_names_each_wrong_sample_and_keeps_nothing(fed):
    refused = push(fed, sent(fed, sequence=1), sent(fed, value=-1), sent(fed, service="nobody"))
    assert refused.status_code == 409
    assert [(one["index"], one["code"]) for one in refused.json()["errors"]] == [(1, "negative"), (2, "scope")]
    assert all(one["reason"] for one in refused.json()["errors"])
    assert push(fed, sent(fed, sequence=1)).status_code == 202


@pytest.mark.req("SIG-4")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"samples": 1}',
        b'{"samples": [1]}',
        b'{"samples": [{}]}',
        b'{"samples": [{"source": "s", "service": "web", "kind": "mood", "value": 1}]}',
        b'{"samples": [{"source": "s", "service": "web", "kind": "cpu", "value": NaN}]}',
    ],
)
def test_what_is_no_batch_is_a_bad_request_in_words(fed, body):
    made = fed.client(Role.INGEST).post("/signals", content=body, headers={"content-type": "application/json"})
    assert made.status_code == 400, made.text
    assert "Traceback" not in made.text


@pytest.mark.req("SIG-8", "SIG-9")
def test_more_than_a_thousand_samples_are_no_batch(fed):
    made = push(fed, *[sent(fed)] * 1001)
    assert made.status_code in (400, 413), made.text


@pytest.mark.req("SIG-8")
def test_an_ingest_token_only_pushes_and_others_do_not_push(fed):
    assert fed.client(Role.INGEST).get("/services").status_code == 403
    assert fed.client(Role.VIEWER).post("/signals", json={"samples": [sent(fed)]}).status_code == 403


def series(text, name):
    return [line for line in text.splitlines() if line.startswith(name) and not line.startswith("#")]


@pytest.mark.req("RUN-6")
def test_metrics_tell_the_fleet_and_what_was_pushed(fed):
    push(fed, sent(fed))
    push(fed, sent(fed, value=-1))
    text = fed.client().get(f"{ORIGIN}/metrics").text
    assert 'fleetwarden_service_replicas{service="web",what="ready"} 2' in text
    assert any(line.endswith((" 1", " 1.0")) for line in series(text, "fleetwarden_signal_samples_accepted_total"))
    [refused] = series(text, "fleetwarden_signal_samples_rejected_total")
    assert 'code="negative"' in refused
    assert 'source="shop-1"' in refused


@pytest.mark.req("SIG-4", "RUN-6", "SEC-1")
@pytest.mark.parametrize("source", ["https://bot:hunter2@ci.example/x", "password:hunter2", "hunter2 with\nlines"])
def test_no_metric_shows_what_somebody_sent_as_a_name(fed, source):
    assert push(fed, sent(fed, source=source, value=-1)).status_code == 409
    text = fed.client().get(f"{ORIGIN}/metrics").text
    assert "hunter2" not in text
    assert "fleetwarden_signal_samples_rejected_total{code=" in text
    assert 'source="malformed"' in text


MANY = """\
signals:
  waiting: {source: pushed, kind: queue, aggregation: fleet_total, unit: jobs, services: [web, s1, s2, s3, s4]}
  busy: {source: pushed, kind: cpu, aggregation: per_replica, unit: percent, services: [s1, web]}
"""


@pytest.fixture
def many(tmp_path):
    (tmp_path / "signals.yml").write_text(MANY, encoding="utf-8")
    made = World(tmp_path)
    made.substrate.boot("web", 2)
    made.look()
    yield made
    made.close()


def read(world, **query):
    return world.client().get("/signals", params=query)


@pytest.mark.req("SIG-2", "SIG-3", "SIG-5")
def test_signals_are_listed_page_by_page_and_what_is_missing_is_null(many):
    whole = read(many).json()
    assert (len(whole["items"]), whole["next"]) == (7, None)
    assert {(one["value"], one["fault"]) for one in whole["items"]} == {(None, "missing")}
    walked, cursor = [], None
    while True:
        page = read(many, limit=3, **({} if cursor is None else {"cursor": cursor})).json()
        assert page["snapshot"] == whole["snapshot"]
        walked.append(page["items"])
        cursor = page["next"]
        if cursor is None:
            break
    assert [len(one) for one in walked] == [3, 3, 1]
    assert [one for page in walked for one in page] == whole["items"]


@pytest.mark.req("SIG-4")
def test_a_cursor_that_was_changed_or_is_none_is_a_bad_request_and_one_of_another_snapshot_a_conflict(many, tmp_path):
    cursor = read(many, limit=3).json()["next"]
    for wrong in ("x", cursor[:-2], cursor + "A", "A" * 4096):
        told = read(many, cursor=wrong)
        assert (told.status_code, told.json()["code"]) == (400, "malformed_cursor"), wrong
    for wrong in ("", "a b", "é", "A" * 4097):
        assert read(many, cursor=wrong).status_code == 400
    (tmp_path / "signals.yml").write_text(MANY.replace(", s4", ""), encoding="utf-8")
    assert many.plane.autoscaling.sources.file.refresh()
    told = read(many, cursor=cursor)
    assert (told.status_code, told.json()["code"]) == (409, "snapshot_changed")
    assert len(read(many).json()["items"]) == 6


@pytest.mark.req("SIG-2", "SIG-9")
def test_a_page_is_bounded_by_the_cap_and_a_deployment_tightens_it(many, tmp_path):
    assert read(many, limit=1000).status_code == 200
    for wrong in ("0", "1001", "-1", "1.0", "x", ""):
        assert read(many, limit=wrong).status_code == 400, wrong
    assert read(many, limt=1).status_code == 400
    (tmp_path / "signals.yml").write_text(MANY + "caps: {page_size: 2}\n", encoding="utf-8")
    assert many.plane.autoscaling.sources.file.refresh()
    page = read(many).json()
    assert len(page["items"]) == 2
    assert page["next"] is not None
    assert read(many, limit=3).status_code == 400
    told = push(many, *[sent(many)] * 3)
    assert (told.status_code, told.json()["code"]) == (413, "too_large")
    assert push(many, sent(many), sent(many, source="shop-2")).status_code == 202
