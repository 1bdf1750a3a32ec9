"""A sender's body read into events: which kind of sender it is, and each of its alerts in our shape.

A body is read whole or refused whole.  What can be told by its content is what it is, whatever the caller calls it; the
name that it came by decides where the content alone cannot.  A refusal says what is wrong and never repeats the body.
"""

from __future__ import annotations

import codecs
import email.parser
import email.policy
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fleetwarden.adapters.ingress import alertmanager, generic, grafana, portainer, uptime_kuma
from fleetwarden.adapters.ingress.cleaning import DEPTH_MAX
from fleetwarden.domain.errors import Misconfigured, Refused
from fleetwarden.domain.event_words import source_of
from fleetwarden.domain.events import FleetEvent

__all__ = ["EVENTS_MAX", "KINDS", "UnreadableEvents", "read_events"]

EVENTS_MAX: Final = 10_000
EVENT_BYTES_MAX: Final = 64 * 1024
KINDS: Final = (alertmanager.SOURCE, uptime_kuma.SOURCE, grafana.SOURCE, portainer.SOURCE, generic.SOURCE)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(code for code in range(256) if code not in _BRACKETS)
_DECODE = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode


class UnreadableEvents(Misconfigured):
    """The body is nothing that events can be read from."""

    code = "malformed"


def read_events(
    body: bytes,
    *,
    content_type: str = "application/json",
    source: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> list[FleetEvent]:
    """The events of a body; none where a notification has no alerts.

    `source`: what the caller calls the sender; the name of what no content tells.  `mapping`: of a generic source.
    Raises UnreadableEvents; Refused (`too_large`) for more alerts than `EVENTS_MAX` or one that is too large to keep.
    """
    if content_type.partition(";")[0].strip().lower() == "multipart/form-data":
        body = _form_field(body, content_type)
    found = _read(_decoded(body), _named(source), mapping)
    if len(found) > EVENTS_MAX:
        raise Refused(
            f"the body has {len(found):,} alerts, at most {EVENTS_MAX:,} can be taken at once",
            code="too_large",
            hint="let the sender group them into smaller notifications",
        )
    if len(body) > EVENT_BYTES_MAX:
        for place, one in enumerate(found):
            if len(_ENCODE(one)) > EVENT_BYTES_MAX:
                raise Refused(
                    f"alert {place + 1} of the body is too large to be kept (limit {EVENT_BYTES_MAX:,} bytes)",
                    code="too_large",
                    hint="shorten its labels and annotations",
                )
    return found


def _named(source: str | None) -> str:
    """The caller's name for the sender."""
    name = source_of(source or "")
    if not name:
        return ""
    if not _NAME.fullmatch(name):
        raise UnreadableEvents(
            "the name of the source cannot be used",
            hint="1 to 63 letters, digits, '.', '_' or '-', such as alertmanager",
        )
    return name


def _decoded(body: bytes) -> Mapping[str, Any]:
    body = body.removeprefix(codecs.BOM_UTF8)  # some senders write one before everything
    if not body.strip():
        raise UnreadableEvents("the body is empty", hint="send one JSON object")
    if _too_deep(body):
        raise UnreadableEvents(f"the body is nested deeper than {DEPTH_MAX} levels")
    try:
        value = _DECODE(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableEvents("the body is no JSON in UTF-8", hint="send one JSON object") from error
    if not isinstance(value, dict):
        raise UnreadableEvents(f"the body is {_shape(value)}, a JSON object is needed")
    return value


def _too_deep(body: bytes) -> bool:
    """Whether brackets nest too deep.  Those inside of texts count, too, unless they close again there."""
    left = body.translate(None, _NO_BRACKETS)
    for _ in range(DEPTH_MAX + 1):
        before = len(left)
        left = left.replace(b"{}", b"").replace(b"[]", b"")
        if not left or len(left) == before:
            break
    return bool(left) and _depth(body) > DEPTH_MAX


def _depth(body: bytes) -> int:
    """The deepest nesting, texts left out."""
    depth = deepest = 0
    inside = escaped = False
    for code in body:
        if inside:
            if escaped:
                escaped = False
            elif code == 0x5C:
                escaped = True
            elif code == 0x22:
                inside = False
        elif code == 0x22:
            inside = True
        elif code in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEPTH_MAX:
                return deepest
        elif code in b"]}":
            depth -= 1
    return deepest


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "a text" if isinstance(value, str) else "nothing" if value is None else "a single value"


def _form_field(body: bytes, content_type: str) -> bytes:
    """The field `data` of a form, which is how Uptime Kuma sends JSON by its other setting."""
    try:
        head = f"Content-Type: {content_type}\r\nMIME-Version: 1.0\r\n\r\n".encode("ascii")
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        for part in message.iter_parts() if message.is_multipart() else ():
            if part.get_param("name", header="content-disposition") == "data":
                payload = part.get_payload(decode=True)
                if isinstance(payload, bytes):
                    return payload
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise UnreadableEvents("the form cannot be read") from error
    raise UnreadableEvents("the form has no field data", hint="send JSON, or a form whose field data is JSON")


def _read(body: Mapping[str, Any], name: str, mapping: Mapping[str, str] | None) -> list[FleetEvent]:
    if mapping is not None:
        return generic.read(body, source=name or generic.SOURCE, mapping=mapping)
    if alertmanager.is_envelope(body):
        found = _alerts(body, name)
        if len(found) < len(body["alerts"]):
            raise UnreadableEvents("an alert of the notification is no JSON object")
        return found
    if "alerts" in body and ("version" in body or "groupKey" in body):
        raise UnreadableEvents("alerts of the notification is no list")
    if grafana.is_legacy(body):
        return grafana.read_legacy(body)
    if uptime_kuma.is_heartbeat(body):
        return uptime_kuma.read(body)
    if uptime_kuma.is_notice(body):
        return generic.read(body, source=uptime_kuma.SOURCE)
    return generic.read(body, source=name if name and name not in KINDS[:3] else generic.SOURCE)


def _alerts(body: Mapping[str, Any], name: str) -> list[FleetEvent]:
    if grafana.is_unified(body):
        return grafana.read_unified(body)
    named = name == portainer.SOURCE  # the shape is another product's: here its address says who sent it
    return portainer.read(body) if named or portainer.is_portainer(body) else alertmanager.read(body)
