"""The signals that come with the product: the plane's own queue, for the one service that works on it.

They are defined only where a deployment names that service and has no other source of signals; what a file declares
under the same name counts instead.  No other service gets an answer from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fleetwarden.domain.signal_file import LOCAL, SignalsDocument
from fleetwarden.domain.signals import Aggregation, Definition, SignalKind, SignalScope

__all__ = ["CONSUMER_LAG", "LOCAL", "QUEUE_DEPTH", "shipped_signals", "with_shipped"]

QUEUE_DEPTH: Final = "queue_depth"
CONSUMER_LAG: Final = "consumer_lag"


def shipped_signals(service: str) -> Mapping[str, Definition]:
    """The definitions, bound to that service."""
    return {
        name: _definition(name, unit, service) for name, unit in ((QUEUE_DEPTH, "items"), (CONSUMER_LAG, "messages"))
    }


def _definition(name: str, unit: str, service: str) -> Definition:
    return Definition(
        name=name,
        kind=SignalKind.QUEUE,
        unit=unit,
        scope=SignalScope.FLEET,
        aggregation=Aggregation.FLEET_TOTAL,
        source=LOCAL,
        services=(service,),
    )


def with_shipped(document: SignalsDocument, service: str) -> SignalsDocument:
    """The document with the shipped definitions, unless it has sources of its own or no service is named ("")."""
    if not service or document.sources:
        return document
    return msgspec.structs.replace(document, definitions={**shipped_signals(service), **document.definitions})
