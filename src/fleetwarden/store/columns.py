"""How a value becomes a column and comes back.

Nothing is cut: what does not fit is refused, naming the field and its limit, and with it the transaction.  What comes
back is checked against its record's type; a row that does not fit makes the store unreadable for that record, loudly,
because a rule that cannot be read must never look like no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

from fleetwarden.domain.errors import Refused, StoreUnavailable
from fleetwarden.domain.identifiers import canonical_json
from fleetwarden.store.statements import Row

__all__ = ["JSON_BYTES_MAX", "PROSE_BYTES_MAX", "TEXT_BYTES_MAX", "document", "plain_json", "prose", "reading", "text"]

TEXT_BYTES_MAX = 4 * 1024  # names, rules, reasons
PROSE_BYTES_MAX = 64 * 1024  # what may quote a program: details, errors, notes, notices
JSON_BYTES_MAX = 256 * 1024

R = TypeVar("R")
_DECODE_ANY = msgspec.json.Decoder()


def text(field: str, value: str, limit: int = TEXT_BYTES_MAX) -> str:
    """`value`, if it fits.  Raises Refused: too long, or with characters that no database keeps."""
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise Refused(f"{field} is not Unicode text: {error}", code="unstorable") from error
    if size > limit:
        raise Refused(f"{field} is {size} bytes long, its limit is {limit}", code="too_large")
    if "\0" in value:
        raise Refused(f"{field} contains a NUL character, which cannot be stored", code="unstorable")
    return value


def prose(field: str, value: str) -> str:
    """Text of a program's own words, with a wider limit."""
    return text(field, value, PROSE_BYTES_MAX)


def document(field: str, value: Any) -> str:
    """`value` as canonical JSON text.  Raises Refused: too large, or not expressible in JSON."""
    try:
        body = canonical_json(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Refused(f"{field} cannot be written as JSON: {error}", code="unstorable") from error
    if len(body) > JSON_BYTES_MAX:
        raise Refused(f"{field} is {len(body)} bytes of JSON, its limit is {JSON_BYTES_MAX}", code="too_large")
    return body.decode()


def plain_json(stored: str) -> Any:
    """Stored JSON as plain values."""
    return _DECODE_ANY.decode(stored)


def reading(what: str) -> Callable[[Callable[[Row], R]], Callable[[Row], R]]:
    """Decorates what turns a row of `what` into its record; a row that does not fit raises StoreUnavailable."""

    def decorate(build: Callable[[Row], R]) -> Callable[[Row], R]:
        @wraps(build)
        def checked(row: Row) -> R:
            try:
                return build(row)
            except (msgspec.MsgspecError, ValueError, TypeError) as error:
                raise StoreUnavailable(
                    f"{what} {row[0]} in the database cannot be read: {error}",
                    hint="it was changed by something else, or is damaged; restore it from a backup",
                ) from error

        return checked

    return decorate
