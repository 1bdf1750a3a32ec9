"""Signatures of senders: HMAC-SHA-256 over the body as it came, by any of a source's keys.

Two keys may be valid at once, so that a sender can change over.  Key files are read for every body; one that cannot be
read, or is empty, vouches for nobody.  All keys are tried, whichever fits, and no key enters a message.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fleetwarden.domain.event_sources import EventSource
from fleetwarden.domain.identifiers import SECOND, Micros

__all__ = ["signature_problem"]

KEY_BYTES_MAX: Final = 4096
AGE_MAX: Final[Micros] = 300 * SECOND  # of a signed time, in both directions
_SIGNATURE_MAX = 256


def signature_problem(
    source: EventSource, folder: Path, headers: Mapping[str, str], body: bytes, now: Micros
) -> str | None:
    """Why the body is not vouched for, or None.  `headers` have lower-case names; `now` judges a signed time."""
    given = headers.get(source.signature_header.lower(), "").strip()
    if not given:
        return f"{source.signature_header} is missing"
    if len(given) > _SIGNATURE_MAX:
        return f"{source.signature_header} is no signature"
    signed = body
    if source.timestamp_header:
        stamp = headers.get(source.timestamp_header.lower(), "").strip()
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
            return f"{source.timestamp_header} is missing, or no number of seconds"
        if abs(int(stamp) * SECOND - now) > AGE_MAX:
            return f"{source.timestamp_header} is more than {AGE_MAX // SECOND} s away from now"
        signed = stamp.encode() + b":" + body
    told = given.lower().removeprefix("sha256=").encode("utf-8", "replace")
    good = False
    for name in source.hmac_files:
        key = _key(folder / name)
        wanted = hmac.new(key or b"\0", signed, hashlib.sha256).hexdigest().encode()
        good |= hmac.compare_digest(wanted, told) and bool(key)
    return None if good else "the signature does not fit"


def _key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            read = file.read(KEY_BYTES_MAX + 1)
    except OSError:
        return b""
    return read.strip() if len(read) <= KEY_BYTES_MAX else b""
