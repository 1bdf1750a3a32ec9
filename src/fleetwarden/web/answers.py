"""Answers as JSON: what `app` returned, written as it is.

No model stands between an operation and its answer, so that nothing is dropped or converted by it; the models in
`schemas` only describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

__all__ = ["answer"]


def _plain(value: Any) -> Any:
    """What the encoder does not know by itself."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def answer(value: Any, status: int = 200) -> Response:
    """`value` as JSON."""
    return Response(_ENCODER.encode(value), status, media_type="application/json")
