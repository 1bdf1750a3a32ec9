"""What each kind of sender says, in one shape; and what is refused."""

from __future__ import annotations

import codecs
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwarden.domain.errors import FleetError, Misconfigured, Refused
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.events import UnreadableEvents, normalise
from tests.unit.events.bodies import alert, encoded, grafana_rule, group, heartbeat, unified


def one(body: Any, **named: Any) -> FleetEvent:
    [event] = normalise(encoded(body), **named)
    return event


@pytest.mark.req("EVT-1")
def test_an_alert_of_alertmanager() -> None:
    event = one(group(alert()))
    assert (event.source, event.severity, event.status, event.phase) == ("alertmanager", "critical", "firing", "firing")
    assert (event.subject, event.fingerprint, event.class_) == ("shop", "00aa11bb22cc33dd", EventClass.DOWN)
    assert (rfc3339(event.starts_at), event.ends_at) == ("2027-03-01T10:00:00.500000Z", None)
    assert event.summary == "ServiceDown of shop"


@pytest.mark.req("EVT-1", "EVT-3")
def test_each_alert_counts_for_itself_and_the_group_for_nothing() -> None:
    over = alert(status="resolved", endsAt="2027-03-01T10:05:00Z", fingerprint="ff")
    told = group(alert(), over, alert(endsAt="2027-03-01T10:04:00Z", fingerprint="ee"), status="resolved")
    first, second, third = normalise(encoded({**told, "commonLabels": {"service": "other", "severity": "info"}}))
    assert [one.phase for one in (first, second, third)] == ["firing", "resolved", "firing"]
    assert second.severity == "info"
    assert rfc3339(second.ends_at) == "2027-03-01T10:05:00.000000Z"
    assert third.ends_at is None  # when it would end by itself is no end


@pytest.mark.req("EVT-1")
def test_without_a_fingerprint_the_labels_are_it() -> None:
    first, again = one(group(alert(fingerprint=None))), one(group(alert(fingerprint=None, status="resolved")))
    other = one(group(alert(fingerprint=None, labels={"instance": "b"})))
    assert first.alert == again.alert
    assert first.alert != other.alert


@pytest.mark.req("EVT-3")
def test_alerts_that_the_sender_left_out_are_recorded() -> None:
    assert one(group(alert(), truncatedAlerts=12)).truncated == 12
    assert one(group(alert(), truncatedAlerts="12")).truncated == 0


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("critical", "critical"),
        (" Page ", "critical"),
        ("FATAL", "critical"),
        ("error", "error"),
        ("warn", "warning"),
        ("notice", "info"),
        ("none", "info"),
        ("P1", "critical"),
        ("sev-0", "critical"),
        ("SEV2", "error"),
        ("high", "error"),
        ("major", "error"),
        ("priority 3", "warning"),
        ("minor", "warning"),
        ("P4", "info"),
        ("low", "info"),
        ("p9", "warning"),
        ("p22", "warning"),
        ("sandwich", "warning"),
        (None, "warning"),
    ],
)
def test_severity_words(word: str | None, severity: str) -> None:
    assert one(group(alert(labels={"severity": word}))).severity == severity


@pytest.mark.req("EVT-1")
def test_a_generic_body_has_a_severity_of_its_own_and_info_where_it_is_unknown() -> None:
    assert one({"severity": "error", "message": "x"}).severity == "error"
    assert one({"severity": "sev1", "message": "x"}).severity == "critical"
    assert one({"severity": "dreadful", "message": "x"}).severity == "info"


@pytest.mark.req("EVT-5")
@pytest.mark.parametrize(
    ("name", "summary", "class_"),
    [
        ("InstanceDown", "", "down"),
        ("ProbeFailure", "", "down"),
        ("KubePodCrashLooping", "", "flapping"),
        ("NodeDiskPressure", "the node is down soon", "pressure"),
        ("HostOutOfMemory", "", "pressure"),
        ("KubeContainerOOMKilled", "", "pressure"),
        ("CPUThrottlingHigh", "", "pressure"),
        ("ApiErrors", "the shop is unreachable", "down"),
        ("ApiErrors", "too many answers with 500", "none"),
        ("Watchdog", "the whole pipeline is down if this stops", "none"),
        ("CertificateExpiresSoon", "shop is down in 3 days", "none"),
        ("TlsCheck", "the certificate of shop.test will expire in 7 days", "none"),
    ],
)
def test_what_an_alert_is_about(name: str, summary: str, class_: str) -> None:
    assert one(group(alert(name, annotations={"summary": summary}))).class_ == class_


@pytest.mark.req("EVT-5", "PLB-3")
@pytest.mark.parametrize(
    ("name", "message", "class_"),
    [
        ("load-balancer", "connect ECONNREFUSED", "down"),
        ("storage-api", "storage-api is down", "down"),
        ("heapster", "timeout", "down"),
        ("web load", "above 12", "pressure"),
        ("high load on web", "", "pressure"),
        ("web storage full", "", "pressure"),
        ("web disk", "check failed", "pressure"),
        ("storage-api", "heap usage 97 %", "pressure"),
    ],
)
def test_a_monitor_that_is_called_after_a_thing_is_not_about_pressure(name: str, message: str, class_: str) -> None:
    beat = heartbeat(0, monitor={"id": 1, "name": name}, msg=message)
    assert one(beat | {"msg": ""}).class_ == class_


@pytest.mark.req("EVT-1")
def test_a_byte_order_mark_before_a_body_is_no_part_of_it() -> None:
    body = encoded(group(alert()))
    assert normalise(codecs.BOM_UTF8 + body) == normalise(body)


@pytest.mark.req("EVT-5")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (unified(alert("DatasourceNoData")), "no_data"),
        (unified(alert("DatasourceError")), "no_data"),
        (unified(alert("TestAlert", annotations={"summary": "Notification test"})), "test"),
        (grafana_rule("no_data"), "no_data"),
        (grafana_rule(evalMatches=[], message="The panel has no data."), "no_data"),
        (grafana_rule(evalMatches=[]), "no_data"),
        (grafana_rule(evalMatches=None), "no_data"),
        (grafana_rule(evalMatches=[{"metric": "NoData", "value": None, "tags": None}]), "no_data"),
        (unified(alert(annotations={"grafana_state_reason": "NoData"})), "no_data"),
        (unified(alert(annotations={"grafana_state_reason": "Error, KeepLast"})), "no_data"),
        (grafana_rule("paused"), "paused"),
        (heartbeat(2), "pending"),
        (heartbeat(3), "maintenance"),
        (heartbeat("0"), "unknown"),
        (heartbeat(True), "unknown"),
        ({"heartbeat": None, "monitor": None, "msg": "My Testing"}, "unknown"),
        ({"heartbeat": None, "monitor": None, "msg": "[a][https://a] certificate a expires in 7 days"}, "unknown"),
    ],
)
def test_notices_tests_and_no_data_are_notes_and_no_outages(body: Any, status: str) -> None:
    event = one(body)
    assert (event.phase, event.class_, event.status) == (Phase.NOTE, EventClass.NONE, status)


@pytest.mark.req("EVT-1")
def test_a_heartbeat_of_uptime_kuma() -> None:
    down, up = one(heartbeat()), one(heartbeat(1, msg="200 - OK", ping=3))
    assert (down.source, down.severity, down.status, down.subject) == ("uptime-kuma", "critical", "down", "shop front")
    assert (rfc3339(down.starts_at), down.class_) == ("2027-03-01T10:00:00.250000Z", EventClass.DOWN)
    assert (up.status, up.phase, up.severity, up.alert) == ("up", Phase.RESOLVED, Severity.INFO, down.alert)
    assert (up.starts_at, up.ends_at) == (None, down.starts_at)


@pytest.mark.req("EVT-1")
def test_uptime_kuma_may_send_a_form() -> None:
    form = b'--xx\r\nContent-Disposition: form-data; name="data"\r\n\r\n' + encoded(heartbeat()) + b"\r\n--xx--\r\n"
    [event] = normalise(form, content_type="multipart/form-data; boundary=xx")
    assert event.status == "down"
    with pytest.raises(UnreadableEvents, match="no field data"):
        normalise(form.replace(b'"data"', b'"other"'), content_type="multipart/form-data; boundary=xx")


@pytest.mark.req("EVT-1")
def test_nothing_of_a_monitor_but_names_and_addresses_is_kept() -> None:
    monitor = {
        "id": 1,
        "name": "db",
        "basic_auth_pass": "hunter2",
        "databaseConnectionString": "postgres://a:hunter2@h/x",
        "headers": '{"Authorization": "Bearer hunter2"}',
        "url": "https://me:hunter2@db.test",
        "tags": [{"name": "team", "value": "dba"}, {"name": "api_token", "value": "hunter2"}],
    }
    event = one(heartbeat(monitor=monitor))
    assert "hunter2" not in repr(event)
    assert event.labels["tag_team"] == "dba"


@pytest.mark.req("EVT-1")
def test_grafana_unified_and_old() -> None:
    event = one(unified(alert(valueString="[ value=1 ]"), message="**Firing**"))
    assert (event.source, event.status, event.class_) == ("grafana", "firing", EventClass.DOWN)
    old, over = one(grafana_rule(tags={"severity": "critical", "service": "shop"})), one(grafana_rule("ok"))
    assert (old.source, old.status, old.severity, old.subject) == ("grafana", "firing", "critical", "shop")
    assert (old.class_, old.alert) == (EventClass.DOWN, over.alert)
    assert (over.phase, over.status) == (Phase.RESOLVED, "resolved")


@pytest.mark.req("EVT-5")
def test_a_reason_that_says_nothing_of_missing_data_changes_nothing() -> None:
    event = one(unified(alert(annotations={"grafana_state_reason": "Updated"})))
    assert (event.phase, event.class_) == (Phase.FIRING, EventClass.DOWN)
    over = one(unified(alert(status="resolved", annotations={"grafana_state_reason": "NoData"})))
    assert over.phase is Phase.RESOLVED
    handmade = {"ruleName": "Shop is down", "state": "alerting"}
    assert one(handmade).phase is Phase.FIRING


@pytest.mark.req("EVT-1")
def test_monitors_of_one_name_that_look_at_different_things_are_different_alerts() -> None:
    def told(status: int, **monitor: Any) -> FleetEvent:
        return one(heartbeat(status, monitor={"id": 1, "name": "health", **monitor}))

    down = told(0, url="https://shop.test/health", hostname=None, port=None)
    assert down.alert == told(1, url="https://shop.test/health").alert
    assert down.alert != told(1, url="https://blog.test/health").alert
    assert told(0, url="https://", hostname="db", port=5432).alert == told(1, hostname="db", port="5432").alert
    assert told(0, hostname="db", port=5432).alert != told(0, hostname="db", port=6379).alert


@pytest.mark.req("EVT-1")
def test_what_uptime_kuma_says_without_a_heartbeat_is_its_own() -> None:
    assert one({"heartbeat": None, "monitor": None, "msg": "My Testing"}).source == "uptime-kuma"
    assert one({"monitor": None, "msg": "My Testing"}).source == "generic"


@pytest.mark.req("EVT-1")
def test_portainer_is_told_by_its_names() -> None:
    assert one(group(alert(), externalURL="https://portainer.test")).source == "portainer"
    assert one(group(alert(labels={"portainer_endpoint": "3"}))).source == "portainer"
    assert one(group(alert())).source == "alertmanager"
    assert one(group(alert()), source="Portainer").source == "portainer"
    assert one(unified(alert()), source="portainer").source == "grafana"
    assert one({"message": "stack is down"}, source="portainer").source == "portainer"


@pytest.mark.req("EVT-1")
def test_content_outranks_what_the_caller_calls_it() -> None:
    assert one(heartbeat(), source="alertmanager").source == "uptime-kuma"
    assert one(group(alert()), source="grafana").source == "alertmanager"
    assert one({"message": "x"}, source="backup-jobs").source == "backup-jobs"
    with pytest.raises(UnreadableEvents, match="name of the source"):
        one({"message": "x"}, source="../etc")


@pytest.mark.req("EVT-3")
def test_secrets_are_taken_out_wherever_they_stand() -> None:
    told = alert(
        labels={"token": "hunter2", "dbPassword": "hunter2", "team": "a"},
        annotations={
            "summary": "login with password=hunter2 failed",
            "api-key": "hunter2",
            "description": "Bearer hunter2hunter2",
        },
        generatorURL="https://u:hunter2@p.test/graph?token=hunter2",
    )
    event = one(group(told))
    assert "hunter2" not in repr(event)
    assert event.labels["team"] == "a"
    generic = one({"Token": "hunter2", "nested": {"list": [{"client_secret": "hunter2"}]}})
    assert "hunter2" not in repr(generic)
    assert one({"message": "x", "labels": {"auth": {"password": "hunter2"}}}).labels["auth"].count("hunter2") == 0


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"nonsense", "no JSON"),
        (b"[1, 2]", "a list"),
        (b'"text"', "a text"),
        (b"null", "nothing"),
        (b"7", "single value"),
        (b'{"a": NaN}', "no JSON"),
        (b'{"a": "\xff"}', "no JSON"),
        (b'{"a": 1', "no JSON"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "deeper"),
        (b"[" * 200_000, "deeper"),
        (encoded({"version": "4", "alerts": {"a": 1}}), "no list"),
        (encoded({"version": "4", "alerts": [1]}), "no JSON object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(body: bytes, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        normalise(body)


@pytest.mark.req("EVT-1")
def test_brackets_in_texts_are_no_nesting() -> None:
    assert one({"message": "{" * 500}).summary.startswith("{")


@pytest.mark.req("EVT-1")
def test_a_notification_without_alerts_has_no_events() -> None:
    assert normalise(encoded(group())) == []


@pytest.mark.req("EVT-3")
def test_too_many_alerts_and_too_large_ones_are_refused_whole() -> None:
    with pytest.raises(Refused, match="10,001 alerts"):
        normalise(encoded(group(*[{}] * 10_001)))
    wide = alert(annotations={f"note{number}": "é" * 1024 for number in range(60)})
    with pytest.raises(Refused, match="alert 2 of the body is too large"):
        normalise(encoded(group(alert(), wide)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
WORDS = ("status", "labels", "annotations", "startsAt", "endsAt", "fingerprint", "generatorURL", "severity", "msg")
SHAPES: tuple[Any, ...] = (group(alert(), alert(status="resolved")), unified(alert()), grafana_rule(), heartbeat())


def checked(body: bytes) -> None:
    """Whatever it is, it is read into events that can be kept, or refused with an error of ours."""
    try:
        events = normalise(body)
    except FleetError:
        return
    for event in events:
        assert len(event.fingerprint) <= 128
        assert event.subject
        assert event.summary
        assert event.phase is not Phase.RESOLVED or event.severity is Severity.INFO
        assert all(text.isprintable() for text in (event.subject, event.summary, *event.labels.values()))


@pytest.mark.req("EVT-1")
@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=80), JSON.map(encoded)))
def test_anything_is_read_or_refused(body: bytes) -> None:
    checked(body)


@pytest.mark.req("EVT-1")
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(WORDS), JSON)
def test_any_field_may_be_of_any_type(shape: Any, word: str, value: Any) -> None:
    def planted(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: value if key == word else planted(inner) for key, inner in body.items()}
        return [planted(inner) for inner in body] if isinstance(body, list) else body

    checked(encoded(planted(shape)))


@pytest.mark.req("EVT-1")
def test_bodies_with_bytes_changed_cut_and_doubled_are_read_or_refused() -> None:
    chance = random.Random(20_270_301)
    bodies = [json.dumps(shape).encode() for shape in SHAPES]
    for _ in range(1500):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body))
            what = chance.randrange(4)
            if what == 0:
                body[at] = chance.randrange(256)
            elif what == 1:
                del body[at : at + chance.randint(1, 40)]
            elif what == 2:
                body[at:at] = body[at : at + chance.randint(1, 40)]
            else:
                body[at:at] = chance.choice([b"[", b"{", b"}", b"null", b'"', b"\\u0000", b"1e999", b"\x00"])
            if not body:
                break
        checked(bytes(body))


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize(
    "told", ["9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59Z", 9.9e13 + 1e13, 1e300, "0001-01-01T00:00:00Z"]
)
def test_a_time_that_nobody_can_have_meant_is_no_time_and_every_other_can_be_shown(told: Any) -> None:
    event = one({"service": "web", "status": "down", "starts_at": told})
    assert event.starts_at is None
    assert one(group(alert(startsAt=told))).starts_at is None
    kept = one({"service": "web", "status": "down", "starts_at": "5000-01-01T00:00:00Z"}).starts_at
    assert rfc3339(kept) == "5000-01-01T00:00:00.000000Z"


@pytest.mark.req("EVT-1")
@pytest.mark.parametrize(
    "labels", [{**{f"a{number:03}": "v" for number in range(64)}, "zone": "x"}, {"query": "q" * 1024 + "x"}]
)
def test_alerts_that_differ_only_in_what_is_cut_are_two(labels: dict[str, str]) -> None:
    [last] = [name for name in labels if labels[name].endswith("x")]
    others = {**labels, last: labels[last] + "y"}
    first, second = (
        one(group(alert(fingerprint=None, labels=labels))),
        one(group(alert(fingerprint=None, labels=others))),
    )
    assert first.alert != second.alert
    assert first.alert == one(group(alert(fingerprint=None, labels=labels, status="resolved"))).alert
    down = {"service": "web", "status": "down"}
    assert one({**down, "labels": labels}).alert != one({**down, "labels": others}).alert


@pytest.mark.req("EVT-1")
def test_of_too_many_labels_those_that_name_the_service_are_kept() -> None:
    told = alert(labels={f"a{number}": "v" for number in range(500)} | {"service": "web", "severity": "page"})
    event = one(group({**told, "labels": dict(sorted(told["labels"].items()))}))  # as Alertmanager sends them
    assert (event.labels["service"], event.subject, event.severity, len(event.labels)) == ("web", "web", "critical", 64)
