"""Values of a sender's body on their way into an event: text, bounded, one line, secrets taken out.

Nothing that a sender wrote is trusted to have the type that its documentation gives.  What cannot be text is left out
or shown as JSON; nothing here raises because of a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

import msgspec

from fleetwarden.domain.event_matching import DEFAULT_LABELS
from fleetwarden.domain.identifiers import Micros, instant
from fleetwarden.domain.scrubbing import MASK, names_secret, scrubbed

__all__ = [
    "FINGERPRINT_MAX",
    "SUBJECTS",
    "clean",
    "fingerprint",
    "first_text",
    "is_mapping",
    "json_text",
    "labels_of",
    "names_alert",
    "one_line",
    "told_time",
    "without_secrets",
]

FINGERPRINT_MAX: Final = 128
LABELS_MAX: Final = 64
NAME_MAX: Final = 128
VALUE_MAX: Final = 1024
LINE_MAX: Final = 500
DEPTH_MAX: Final = 32
SUBJECTS: Final = (
    "service",
    "service_name",
    "app",
    "application",
    "container_name",
    "container",
    "deployment",
    "statefulset",
    "job",
    "monitor",
    "instance",
    "host",
    "hostname",
    "node",
    "alertname",
)
FIRST_KEPT: Final = frozenset({*SUBJECTS, *DEFAULT_LABELS, "severity", "priority", "level"})
SHORT: Final = 128
_KNOWN_MAX = 8192
_NO_SECRET: set[str] = set()  # short texts that scrubbing left as they are: labels come again and again
_NAMES: dict[str, bool] = {}
_ZERO_YEAR = 2
_LATEST: Final[Micros] = 10**17  # in the year 5138: what lies after it is no time that anybody meant, nor one to show


def clean(value: Any, longest: int = VALUE_MAX) -> str:
    """A value as one text without secrets and control characters, at most `longest` characters and a sign of more."""
    if value is None:
        return ""
    text: str = value if isinstance(value, str) else json_text(without_secrets(value))
    if text in _NO_SECRET:
        return text
    kept = scrubbed(text[: longest + 1].replace("\r", " ").replace("\n", " "))
    if len(kept) > longest:
        kept = kept[:longest] + "…"
    if kept == text and len(text) <= SHORT:
        if len(_NO_SECRET) >= _KNOWN_MAX:
            _NO_SECRET.clear()
        _NO_SECRET.add(text)
    return kept


def json_text(value: Any) -> str:
    """A value as JSON, with a blank after separators, as people write it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def one_line(value: Any) -> str:
    """The first line of a text that says something."""
    if not isinstance(value, str):
        return ""
    for line in value.splitlines():
        if line.strip():
            return clean(line.strip(), LINE_MAX)
    return ""


def first_text(*values: Any) -> str:
    """The first of these that is a text with something in it, cleaned."""
    for value in values:
        if isinstance(value, str) and value.strip():
            return clean(value.strip())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return clean(value)
    return ""


def labels_of(given: Any) -> dict[str, str]:
    """A mapping of names to values as labels; what is named like a secret keeps its name only."""
    if not is_mapping(given):
        return {}
    found: dict[str, str] = {}
    pairs = list(given.items())
    if len(pairs) > LABELS_MAX:  # what says which service is meant, and how bad it is, comes first
        pairs.sort(key=lambda pair: pair[0] not in FIRST_KEPT)
    for name, value in pairs:
        if len(found) >= LABELS_MAX:
            break
        key = name if name in _NO_SECRET else clean(name, NAME_MAX)
        if not key or value is None:
            continue
        named = _NAMES.get(key)
        if (_named(key) if named is None else named) and value not in ("", False):
            found[key] = MASK
        else:
            found[key] = value if type(value) is str and value in _NO_SECRET else clean(value)
    return found


def names_alert(given: Any, labels: Mapping[str, str]) -> Any:
    """What tells an alert apart by its labels: the whole of them where `labels` is cut, with secrets masked."""
    if not is_mapping(given):
        return labels
    cut = len(given) > LABELS_MAX or any(isinstance(one, str) and len(one) > VALUE_MAX for one in given.values())
    return (without_secrets(given), labels) if cut else labels


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether it has fields.  What a body is decoded into is asked for first: the general question is dear."""
    return type(value) is dict or isinstance(value, Mapping)


def _named(name: str) -> bool:
    known = _NAMES.get(name)
    if known is None:
        if len(_NAMES) >= _KNOWN_MAX:
            _NAMES.clear()
        known = _NAMES[name] = names_secret(name)
    return known


def without_secrets(value: Any, depth: int = 0) -> Any:
    """A whole JSON value with every field that is named like a secret masked."""
    if depth > DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {
            str(key): MASK if _named(str(key)) and one not in (None, "") else without_secrets(one, depth + 1)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(one, depth + 1) for one in value]
    return value


def fingerprint(given: Any, *parts: Any) -> str:
    """The sender's own fingerprint or, where it gives none that can be kept, one made of these parts."""
    if isinstance(given, str) and 0 < len(given) <= FINGERPRINT_MAX and given.isascii() and given.isprintable():
        return given
    made = parts if not isinstance(given, str) or not given else (*parts, given)
    return hashlib.sha256(msgspec.json.encode(made, order="sorted")).hexdigest()[:32]


def told_time(value: Any) -> Micros | None:
    """A time as a sender writes it: RFC 3339, the same without a zone (UTC), or seconds or milliseconds since 1970.

    None for what is no time, for the year 1 (which is Go's way to say that there is none), and beyond what can be kept.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        if not 0 < value < _LATEST / 1000:
            return None
        return int(value * 1000) if value >= 1e11 else int(value * 1_000_000)
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        when = datetime.fromisoformat(value.strip())
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        at = instant(when)
    except (ValueError, OverflowError):
        return None
    return at if when.year > _ZERO_YEAR and 0 < at < _LATEST else None
