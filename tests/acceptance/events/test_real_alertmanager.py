"""Real Prometheus, real Alertmanager, one plane: an alert arrives, and its end closes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.ports.stores import Page
from fleetwarden.web.server import serve
from tests.alerting import alerting
from tests.prometheus import PATIENCE_S, Exporter, eventually, exporter

__all__ = ["exporter"]  # the fixture

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.needs("alertmanager")]
FLEET = """
version: 1
services:
  - {name: shop, match: [{alertname: "Service*", service: "shop-*"}]}
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[tuple[Plane, str]]:
    """A plane that serves, with the address of its API."""
    folder = tmp_path / "plane"
    folder.mkdir()
    (folder / "fleet.yml").write_text(FLEET)
    made = Plane(load_settings(folder, {"FLEET_DATA_DIR": str(folder)}))
    ready, ends, found = threading.Event(), threading.Event(), list[str]()

    def on_ready(url: str) -> None:
        found.append(url)
        ready.set()

    def run() -> None:
        serve(made, host="127.0.0.1", port=0, on_ready=on_ready, ends=ends)

    thread = threading.Thread(target=run, daemon=True)
    made.start()
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield made, f"{found[0]}/api/fleet"
    ends.set()
    thread.join(PATIENCE_S)
    made.stop()


@pytest.mark.req("EVT-1", "EVT-2", "EVT-4", "OBS-2")
def test_an_alert_arrives_once_and_its_end_closes_it(
    plane: tuple[Plane, str], exporter: Exporter, tmp_path: Path
) -> None:
    made, address = plane
    token = made.administration.create_token(
        local_admin(), name="alerts", roles=("ingest",), person="alerts", for_s=None
    )
    exporter.values[("shop_up", "shop-1")] = 0

    def kept(**page: Any) -> list[Any]:
        return list(made.store.read(lambda tx: tx.events.list(Page(**page))))

    with alerting(tmp_path, exporter.port, f"{address}/events", str(token["secret"])):
        eventually(lambda: bool(kept()), "no alert arrived")
        [fired] = kept(state="firing")
        assert (fired.event.source, fired.event.severity, fired.event.class_) == ("alertmanager", "critical", "down")
        assert (fired.event.service, fired.event.labels["service"]) == ("shop", "shop-1")
        assert len(fired.event.fingerprint) == 16  # Alertmanager's own
        assert "hunter2" not in repr(fired)
        assert fired.open
        eventually(lambda: bool(kept()[0].remediation_log), "nobody took the step")
        exporter.values[("shop_up", "shop-1")] = 1
        eventually(lambda: bool(kept(state="resolved")), "no end arrived")
    [over] = kept(state="resolved")
    [fired] = kept(state="firing")
    assert (over.closes, fired.ended_by, fired.open) == (fired.seq, over.seq, False)
    assert fired.ended_at == over.event.ends_at
