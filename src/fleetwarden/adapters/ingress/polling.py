"""Asking Alertmanager (API v2) and Uptime Kuma (/metrics) for what stands now.

Their answers are read by the same code as their notifications.  Bounded in time and size; redirects are not followed,
so that a credential goes to nobody else.  What is no answer is an error and never an empty one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from fleetwarden.adapters.ingress import alertmanager, uptime_kuma
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.event_sources import EventsDocument, EventSource, Polling
from fleetwarden.domain.events import FleetEvent, Phase
from fleetwarden.ports.alert_sources import Standing

__all__ = ["PolledSources"]

TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_PATHS: Final = {"alertmanager": "/api/v2/alerts", "uptime-kuma": "/metrics"}
_ALERTS = msgspec.json.Decoder(list[dict[str, Any]])


class PolledSources:
    """Implements `ports.alert_sources.AlertSources`.  `folder`: where files of secrets lie."""

    def __init__(self, document: Callable[[], EventsDocument], folder: Path) -> None:
        self._document = document
        self._folder = folder

    def known(self) -> Sequence[EventSource]:
        return [one for one in self._document().sources.values() if one.poll is not None]

    def ask(self, source: EventSource) -> Standing:
        assert source.poll is not None
        body = self._fetched(source, source.poll)
        try:
            found = _alerts(body) if source.kind == "alertmanager" else _monitors(body)
        except (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise Retryable(f"{source.name} answers something else than its alerts") from error
        named = tuple(msgspec.structs.replace(one, origin=source.name) for one in found.events)
        return Standing(present=found.present, events=named)

    def _fetched(self, source: EventSource, poll: Polling) -> bytes:
        try:
            headers = self._headers(poll)
            with (
                httpx2.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False) as client,
                client.stream("GET", poll.url.rstrip("/") + _PATHS[source.kind], headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise Retryable(f"{source.name} answers with status {answer.status_code}")
                body = bytearray()
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Retryable(f"{source.name} answers with more than {ANSWER_BYTES_MAX:,} bytes")
                return bytes(body)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            raise Retryable(f"{source.name} cannot be asked: {type(error).__name__}") from error

    def _headers(self, poll: Polling) -> Mapping[str, str]:
        if poll.bearer_file:
            return {"Authorization": f"Bearer {self._secret(poll.bearer_file)}"}
        if poll.password_file:
            pair = f"{poll.username}:{self._secret(poll.password_file)}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {}

    def _secret(self, name: str) -> str:
        secret = (self._folder / name).read_text(encoding="utf-8").strip()
        if not secret or not secret.isascii() or not secret.isprintable():
            raise Retryable(f"{name} is not one line of printable ASCII")
        return secret


def _alerts(body: bytes) -> Standing:
    present, events = set[str](), list[FleetEvent]()
    for one in _ALERTS.decode(body):
        status = one.get("status")
        state = status.get("state") if isinstance(status, Mapping) else None
        event = alertmanager.event_of({**one, "status": "firing"}, {}, alertmanager.SOURCE)
        present.add(event.alert)
        if state == "active":
            events.append(event)
    return Standing(present=frozenset(present), events=tuple(events))


def _monitors(body: bytes) -> Standing:
    """Of several series of one monitor, which remain when its tags are changed, one that says up counts."""
    events: dict[str, FleetEvent] = {}
    seen = False
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples if family.name == "monitor_status" else ():
            seen = True
            labels = {key.removeprefix("monitor_"): value for key, value in sample.labels.items() if value != "null"}
            beat = {"heartbeat": {"status": int(sample.value)}, "monitor": labels}
            [event] = uptime_kuma.read(beat)
            known = events.get(event.alert)
            if known is None or known.phase is not Phase.RESOLVED:
                events[event.alert] = event
    present = {one.alert for one in events.values() if one.phase is not Phase.RESOLVED}
    if not seen and b"monitor_" not in body:
        raise ValueError("no monitors")
    said = tuple(one for one in events.values() if one.phase is not Phase.NOTE)
    return Standing(present=frozenset(present), events=said)
