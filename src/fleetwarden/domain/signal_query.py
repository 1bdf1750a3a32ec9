"""One read of many samples, as a record that its digest stands for, and the cursors by which its pages are walked.

Whatever a read asks for is in the record: text, scope, window, time, sizes, snapshot.  Every page that answers it and
every cursor names the digest, so that an answer to another question cannot be taken for this one's.  A cursor says
where to go on and nothing else; it grants nothing, so that its own digest guards it against damage and mix-ups, and
needs no key.  A query never carries credentials: its text is kept as evidence.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from enum import StrEnum

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Refused
from fleetwarden.domain.identifiers import SECOND, Micros, canonical_json, digest, name_problem
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signals import SignalKind

__all__ = [
    "CURSOR_MAX",
    "POSITION_MAX",
    "SNAPSHOT_MAX",
    "TEXT_BYTES_MAX",
    "Position",
    "SignalFault",
    "SignalQuery",
    "credential_problem",
    "cursor_of",
    "position_of",
    "query_problem",
]

TEXT_BYTES_MAX = 262_144  # of a query: the 16 signals that a service may have, each with two texts of 4,096 bytes
POSITION_MAX = 1_024  # characters of a source's own position, none of them a control character
SNAPSHOT_MAX = 256
CURSOR_MAX = 16_384  # whatever the two are written in
_NAMES_MAX = 1_000  # services or sources that a scope names; more is asked for without naming them
# A ':' is part of names that recording rules have (job:token:rate5m), so that it counts only before a value.
_CREDENTIALS = re.compile(
    r"""(?ix)
    (?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization)
        ["']?\s*(?:=|:\s|:["'])
    | ://[^/\s:@]*:[^/\s@]*@
    | \b(?:bearer|basic)\s+[a-z0-9._~+/=-]{8,}
    | \beyj[a-z0-9_-]{8,}\.[a-z0-9_-]{4,}
    | \bfw_[a-z0-9_-]{8,} | \bgh[pousr]_[a-z0-9]{10,} | \bakia[a-z0-9]{10,}
    | -----begin\s
    """
)


class SignalFault(StrEnum):
    """Why a read as a whole is refused.  What is wrong with a single sample is a `Rejection`."""

    MALFORMED_QUERY = "malformed_query"
    OVER_CAPS = "over_caps"
    CREDENTIALS = "query_credentials"
    QUERY_DIGEST = "query_digest"  # a page or a cursor of another query
    MALFORMED_CURSOR = "malformed_cursor"
    SNAPSHOT_CHANGED = "snapshot_changed"  # a page or a cursor of another snapshot
    PAGE_TOO_LARGE = "page_too_large"
    PAGE_REPEATS = "page_repeats"  # the source does not get on
    TIMED_OUT = "timed_out"


class SignalQuery(Record):
    """What one read asks for.

    `text`: in the source's own words, exact; `window_start`, `window_end`: microseconds, both included; `timeout_s`:
    for all pages together; `max_items`: samples, over all pages; `snapshot`: which state of the source is meant ("":
    the one of its first page).  Scope: `tenant`, `scale_unit` ("": any), `services`, `sources`, `kinds` ((): any).
    """

    text: str
    window_start: Micros
    window_end: Micros
    timeout_s: float = GLOBAL_CAPS.timeout_s
    page_size: int = GLOBAL_CAPS.page_size
    max_items: int = GLOBAL_CAPS.items
    snapshot: str = ""
    tenant: str = ""
    scale_unit: str = ""
    services: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kinds: tuple[SignalKind, ...] = ()

    def digest(self) -> str:
        """`sha256:` and 64 hex digits of the whole record in canonical JSON."""
        return digest(msgspec.to_builtins(self))


class Position(Record):
    """What a cursor says: where in which read the next page begins."""

    query_digest: str
    snapshot: str
    after: str  # the source's own word for it
    number: int  # of the next page, from 0
    items: int  # that were read before it


def credential_problem(text: str) -> str | None:
    """Why this text may hold a credential, in words that do not repeat it, or None."""
    if _CREDENTIALS.search(text) is None:
        return None
    return "it looks as if it held a credential, and its text is kept: give bearer_file or basic to the source"


def query_problem(query: SignalQuery, caps: SignalCaps = GLOBAL_CAPS) -> tuple[SignalFault, str] | None:
    """Why this query cannot be asked under these caps, or None."""
    if (why := _malformed(query)) is not None:
        return SignalFault.MALFORMED_QUERY, why
    if (why := credential_problem(query.text)) is not None:
        return SignalFault.CREDENTIALS, f"text: {why}"
    window = query.window_end - query.window_start
    for name, asked, most in (
        ("timeout_s", query.timeout_s, caps.timeout_s),
        ("page_size", query.page_size, caps.page_size),
        ("max_items", query.max_items, caps.items),
        ("window", window, int(caps.window_s * SECOND)),
    ):
        if asked > most:
            unit = " µs" if name == "window" else ""
            return SignalFault.OVER_CAPS, f"{name} {asked:,g}{unit} is above the cap {most:,g}{unit}"
    return None


def _malformed(query: SignalQuery) -> str | None:
    if not query.text or len(query.text.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
        return f"text is 1 to {TEXT_BYTES_MAX:,} bytes"
    if not (math.isfinite(query.timeout_s) and query.timeout_s > 0):
        return "timeout_s is above 0"
    if not 0 <= query.window_start <= query.window_end:
        return "window_end lies before window_start, or before 1970"
    if query.page_size < 1 or query.max_items < 1:
        return "page_size and max_items are at least 1"
    if len(query.snapshot) > SNAPSHOT_MAX or not query.snapshot.isprintable():
        return f"snapshot is at most {SNAPSHOT_MAX} printable characters"
    if len(query.services) > _NAMES_MAX or len(query.sources) > _NAMES_MAX:
        return f"services and sources are at most {_NAMES_MAX:,} names: leave them out for all"
    for name in (*query.services, *filter(None, (query.tenant, query.scale_unit))):
        if problem := name_problem(name):
            return problem
    return None


def cursor_of(position: Position) -> str:
    """The cursor that says this: opaque text of letters, digits, '-' and '_'."""
    body = msgspec.to_builtins(position)
    return base64.urlsafe_b64encode(canonical_json([body, digest(body)])).decode().rstrip("=")


def position_of(cursor: str, query_digest: str) -> Position:
    """What a cursor of the query with that digest says.

    Raises Refused: `malformed_cursor` if it is none or was changed on the way, `query_digest` if it is another query's.
    """
    try:
        if len(cursor) > CURSOR_MAX:
            raise ValueError("too long")
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body, told = msgspec.json.decode(raw, type=tuple[dict[str, str | int], str])
        position = msgspec.convert(body, Position)
        sound = told == digest(body) and cursor_of(position) == cursor and position.number >= 0 <= position.items
    except (ValueError, UnicodeError, binascii.Error, msgspec.MsgspecError):
        sound, position = False, None
    if not sound or position is None:
        raise Refused(
            "this is no cursor, or it was changed on the way",
            code=SignalFault.MALFORMED_CURSOR.value,
            hint="pass on what the page before said, or begin without a cursor",
        )
    if position.query_digest != query_digest:
        raise Refused(
            "the cursor belongs to another query",
            code=SignalFault.QUERY_DIGEST.value,
            hint="ask the same as for the page before, or begin without a cursor",
        )
    return position
