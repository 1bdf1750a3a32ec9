"""Values that name things: times, ids, canonical JSON and digests.

Times are integers of microseconds since 1970-01-01T00:00:00Z, so that both databases, the ledger and a digest hold
exactly the same value.  Ids that people see are a letter and a number (`D-238`), short enough to be read aloud.
Nothing here knows the current time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from fleetwarden.domain.errors import Misconfigured

__all__ = [
    "SECOND",
    "JsonValue",
    "Micros",
    "canonical_json",
    "digest",
    "instant",
    "moment",
    "name_problem",
    "parse_id",
    "plain",
    "rfc3339",
    "seconds",
    "show_id",
]

Micros: TypeAlias = int  # microseconds since the epoch, UTC
JsonValue: TypeAlias = Any  # what JSON can hold
SECOND: Micros = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - only to print: half the cost of an aware one, and hot
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
PREFIXES = {
    "D": "decision",
    "A": "approval",
    "X": "action",
    "W": "work item",
    "F": "freeze",
    "R": "report",
    "N": "notice",
    "O": "override",
    "C": "foreign change",
    "I": "scale intent",
    "E": "event",
    "V": "watch",
    "Q": "quarantine",
}
LONG_PREFIX = {"A": "action_approval"}
_CANONICAL = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """The one byte form of a value: sorted keys, no white space, UTF-8.  Equal values give equal bytes."""
    return _CANONICAL.encode(value)


def digest(value: Any) -> str:
    """`sha256:` and 64 hex digits of the canonical JSON of `value` (bytes are digested as they are)."""
    body = value if isinstance(value, bytes) else canonical_json(value)
    return "sha256:" + hashlib.sha256(body).hexdigest()


def instant(when: datetime) -> Micros:
    """An aware datetime as microseconds; exact.  A naive one raises ValueError."""
    if when.tzinfo is None:
        raise ValueError("a time needs a zone")
    return (when - EPOCH) // timedelta(microseconds=1)


def moment(at: Micros) -> datetime:
    """Microseconds as an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=at)


def rfc3339(at: Micros | None) -> str | None:
    """`2027-01-31T12:00:00.000000Z`, or None for None."""
    if at is None:
        return None
    whole, micros = divmod(at, SECOND)
    return (_NAIVE_EPOCH + timedelta(0, whole, micros)).isoformat("T", "microseconds") + "Z"


def seconds(span: Micros) -> float:
    """A span of microseconds in seconds."""
    return span / SECOND


def show_id(prefix: str, number: int) -> str:
    """`D`, 238 → `D-238`."""
    return f"{prefix}-{number}"


def parse_id(prefix: str, text: str) -> int:
    """The number of an id of that kind: `D-238`, `d-238`, `238` and, for approvals, `action_approval:238`.

    Raises Misconfigured for anything else, naming the form that is expected.
    """
    long = LONG_PREFIX.get(prefix)
    body = text.strip()
    for head in (f"{prefix}-", f"{prefix.lower()}-", *((f"{long}:",) if long else ())):
        if body.startswith(head):
            body = body[len(head) :]
            break
    if body.isascii() and body.isdigit() and len(body) <= 18:
        return int(body)
    what = PREFIXES.get(prefix, "record")
    article = "an" if what[0] in "aeiou" else "a"
    raise Misconfigured(f"{text!r} is no id of {article} {what}", hint=f"ids look like {prefix}-12")


def name_problem(name: object) -> str | None:
    """Why `name` cannot name a service or group, or None if it can: 1 to 63 of A-Z a-z 0-9 . _ -."""
    if not isinstance(name, str):
        return f"a name is text, not {type(name).__name__}"
    if not NAME.fullmatch(name):
        return f"{name!r} is no name: 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit at both ends"
    return None


def plain(record: Any) -> dict[str, JsonValue]:
    """A record as JSON-ready values."""
    value = msgspec.to_builtins(record)
    assert isinstance(value, Mapping)
    return dict(value)
