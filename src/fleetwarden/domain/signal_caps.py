"""How much one read of signals may ask for: global caps, which a deployment can tighten and nobody can loosen.

A cap bounds time and memory whatever a source holds.  A looser one is a finding with its file and line; it is never
taken, and never cut down in silence to what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import number, quoted, whole

__all__ = ["GLOBAL_CAPS", "SignalCaps", "read_caps"]


class SignalCaps(Record):
    """The most that one read may ask for.

    `timeout_s`: seconds for all pages together; `window_s`: seconds from the oldest to the newest sample; `page_size`:
    samples of one page; `items`: samples of one read; `guard_sources`: sources whose sequences are remembered.
    """

    timeout_s: float = 10.0
    window_s: float = 86_400.0
    page_size: int = 1_000
    items: int = 1_000_000
    guard_sources: int = 65_536


GLOBAL_CAPS: Final = SignalCaps()
_LEAST: Mapping[str, float] = {"timeout_s": 0.1, "window_s": 1, "page_size": 1, "items": 1, "guard_sources": 1}


def read_caps(found: Findings, node: Node | None) -> SignalCaps:
    """The caps of a `caps:` block, the global ones where it says nothing; what is wrong becomes findings."""
    if node is None or node.value is None:
        return GLOBAL_CAPS
    if not node.mapping:
        found.problem(node, f"caps: {quoted(node)} is {node.shape}, a mapping such as {{page_size: 200}} is needed")
        return GLOBAL_CAPS
    read: dict[str, float | None] = {}
    for name, value in found.keys(node, SignalCaps.__struct_fields__).items():
        most = getattr(GLOBAL_CAPS, name)
        if type(value.value) in (int, float) and value.value > most:
            told = f"caps.{name}: {quoted(value)} is above the global cap {most:,g}"
            found.problem(value, f"{told}: a deployment can tighten a cap, never loosen it")
        elif isinstance(most, int):
            read[name] = whole(found, f"caps.{name}", value, int(_LEAST[name]), most)
        else:
            read[name] = number(found, f"caps.{name}", value, _LEAST[name], most)
    given = {name: value for name, value in read.items() if value is not None}
    return msgspec.structs.replace(GLOBAL_CAPS, **given)
