"""What notifications left out or lost is found by asking, and a source that does not answer changes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.adapters.ingress.polling import PolledSources
from fleetwarden.controllers.admission import Admission
from fleetwarden.controllers.event_healing import EventHealing
from fleetwarden.domain.event_sources import EventsDocument, EventSource, Polling
from fleetwarden.domain.events import FleetEvent, StoredEvent
from fleetwarden.events import normalise
from fleetwarden.ports.stores import Page, Store
from fleetwarden.testing import FakeClock
from tests.contract.store.conftest import Database, sqlite
from tests.unit.events.bodies import alert, encoded, group, heartbeat

__all__ = ["sqlite"]  # the fixture


class Monitor:
    """Answers as Alertmanager and Uptime Kuma do, and notes what it was asked with."""

    def __init__(self) -> None:
        self.alerts: Any = []
        self.monitors: dict[str, int] = {}
        self.series: list[str] = []
        self.status = 200
        self.asked: list[tuple[str, str]] = []
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                monitor.asked.append((self.path, self.headers.get("Authorization", "")))
                body = json.dumps(monitor.alerts).encode()
                if self.path == "/metrics":
                    lines = ["# TYPE monitor_status gauge"]
                    lines += [series(name, value) for name, value in monitor.monitors.items()] + monitor.series
                    body = ("\n".join(lines) + "\n").encode()
                self.send_response(monitor.status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Asking:
    def __init__(self, store: Store, clock: FakeClock, monitor: Monitor, folder: Path, kind: str) -> None:
        self.store, self.clock = store, clock
        (folder / "key").write_text("s3cret\n")
        poll = Polling(url=monitor.url, every_s=60, password_file="key")
        self.source = EventSource(name="main", kind=kind, poll=poll)
        sources = PolledSources(lambda: EventsDocument(sources={"main": self.source}), folder)
        self.admission = Admission(store, list, lambda tx, receipts: None, waiting_max=1000)
        self.healing = EventHealing(clock, store, sources, self.admission)

    def told(self, body: Any) -> None:
        """What the source's own notification says."""
        from msgspec.structs import replace

        events: list[FleetEvent] = [replace(one, origin="main") for one in normalise(encoded(body))]
        self.admission.take("main", events)

    def ask(self) -> int:
        self.clock.advance(61)
        return self.healing.run()

    def kept(self, **page: Any) -> list[StoredEvent]:
        return list(self.store.read(lambda tx: tx.events.list(Page(**page))))


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    made = Monitor()
    yield made
    made.close()


def series(name: str, status: int, url: str = "https://shop.test", more: str = "") -> str:
    """A monitor in the metrics of Uptime Kuma, which writes "null" for what a monitor does not have."""
    labels = (
        f'monitor_name="{name}",monitor_type="http",monitor_url="{url}",monitor_hostname="null",monitor_port="null"'
    )
    return f"monitor_status{{{more}{labels}}} {status}"


def standing(one: dict[str, Any], state: str = "active") -> dict[str, Any]:
    """An alert as Alertmanager's API lists it."""
    return {**one, "status": {"state": state, "silencedBy": [], "inhibitedBy": []}, "receivers": [{"name": "x"}]}


@pytest.mark.req("EVT-3")
def test_alerts_that_were_left_out_are_found_and_those_that_are_gone_end(
    sqlite: Database, monitor: Monitor, tmp_path: Path
) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "alertmanager")
    known, left_out, silenced = (alert(fingerprint=name) for name in ("a", "b", "c"))
    asking.told(group(known, truncatedAlerts=2))
    monitor.alerts = [standing(known), standing(left_out), standing(silenced, "suppressed")]
    assert asking.ask() == 1
    assert sorted(one.event.fingerprint for one in asking.kept()) == ["a", "b"]
    assert asking.ask() == 0  # nothing new, but they are said to last
    assert {one.repeats for one in asking.kept()} == {1, 2}
    monitor.alerts = [standing(left_out, "suppressed")]
    assert [asking.ask() for _ in range(6)] == [0, 0, 0, 0, 0, 1]  # a source that was restarted knows nothing at first
    [over] = asking.kept(state="resolved")
    assert over.event.fingerprint == "a"
    assert [one.open for one in asking.kept(state="firing")] == [True, False]
    asking.told(group({**known, "status": "resolved", "endsAt": known["startsAt"]}))  # the sender's own word comes late
    assert len(asking.kept(state="resolved")) == 1
    assert monitor.asked[0] == ("/api/v2/alerts", "Basic OnMzY3JldA==")


@pytest.mark.req("EVT-3")
def test_a_lost_heartbeat_of_uptime_kuma_is_found_both_ways(sqlite: Database, monitor: Monitor, tmp_path: Path) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "uptime-kuma")
    monitor.monitors = {"shop front": 1, "db": 0, "cache": 2}
    asking.told(heartbeat())
    assert asking.ask() == 2
    assert [(one.event.subject, one.event.phase) for one in asking.kept()][:2] == [
        ("db", "firing"),
        ("shop front", "resolved"),
    ]
    assert asking.ask() == 0
    monitor.monitors = {"shop front": 1, "db": 3}
    assert asking.ask() == 0  # maintenance neither begins nor ends anything


@pytest.mark.req("EVT-3")
def test_series_that_remain_of_changed_tags_and_monitors_of_one_name_are_told_apart(
    sqlite: Database, monitor: Monitor, tmp_path: Path
) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "uptime-kuma")
    asking.told(heartbeat())
    other = series("shop front", 0, "https://blog.test")
    monitor.series = [series("shop front", 0), series("shop front", 1, more='team="a",'), other]
    assert asking.ask() == 2  # the heartbeat's monitor is up again, and the other one of its name is down
    assert [asking.ask() for _ in range(3)] == [0, 0, 0]
    assert [one.event.labels["url"] for one in asking.kept(state="firing") if one.open] == ["https://blog.test"]


@pytest.mark.req("EVT-3")
@pytest.mark.parametrize("answer", [{"no": "list"}, "text"])
def test_a_source_that_does_not_answer_changes_nothing(
    sqlite: Database, monitor: Monitor, tmp_path: Path, answer: Any
) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "alertmanager")
    asking.told(group(alert()))
    monitor.alerts = answer
    assert asking.ask() == 0
    monitor.alerts, monitor.status = [], 500
    assert asking.ask() == 0
    assert asking.healing.failures["main"] == "main answers with status 500"
    assert [one.open for one in asking.kept()] == [True]
    monitor.status = 200
    assert asking.ask() == 0
    asking.clock.advance(300)
    assert asking.ask() == 1
    assert asking.healing.failures == {}


@pytest.mark.req("EVT-3")
@pytest.mark.parametrize("answer", ["+Inf", "NaN", "down"])
def test_a_monitor_whose_state_is_no_number_is_no_answer(
    sqlite: Database, monitor: Monitor, tmp_path: Path, answer: Any
) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "uptime-kuma")
    monitor.monitors = {"shop front": answer, "db": 0}
    assert asking.ask() == 0
    assert asking.healing.failures["main"] == "main answers something else than its alerts"


@pytest.mark.req("EVT-3")
def test_a_source_is_asked_at_its_own_pace_and_at_once_when_it_left_something_out(
    sqlite: Database, monitor: Monitor, tmp_path: Path
) -> None:
    asking = Asking(sqlite.open(), sqlite.clock, monitor, tmp_path, "alertmanager")
    asking.healing.run()
    asking.healing.run()
    assert len(monitor.asked) == 1
    asking.healing.hurry("main")
    asking.healing.run()
    assert len(monitor.asked) == 2
