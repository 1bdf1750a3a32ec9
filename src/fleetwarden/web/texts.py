"""Text that people send: anything that reads as text, and no control characters, which drive terminals and logs.

Line breaks and tabs are text.  Half a surrogate pair is none: no database keeps it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

__all__ = ["REASON_MAX", "TEXT_PATTERN", "Reason", "RequiredReason", "problem_of_text"]

REASON_MAX = 2000
TEXT_PATTERN = (
    "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$"  # describes; the function below reads
)
_ALLOWED_CONTROLS = frozenset("\t\n\r")

Reason = Annotated[str | None, Field(max_length=REASON_MAX, json_schema_extra={"pattern": TEXT_PATTERN})]
RequiredReason = Annotated[
    str,
    Field(
        min_length=1, max_length=REASON_MAX, json_schema_extra={"pattern": "\\S", "allOf": [{"pattern": TEXT_PATTERN}]}
    ),
]


def problem_of_text(text: str) -> str | None:
    """Why this is no text, or None."""
    if text.isprintable():  # false for controls and surrogates, among others
        return None
    for character in text:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            return "a text holds half a surrogate pair, which is no character"
        if (code < 0x20 or 0x7F <= code <= 0x9F) and character not in _ALLOWED_CONTROLS:
            return f"a text holds the control character U+{code:04X}"
    return None
