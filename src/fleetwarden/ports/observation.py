"""Seeing the fleet.

An observer answers for many services in one call.  It reports what it read and nothing else: a service it could not
read is absent from the answer, never down.  It must never change anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import Micros

__all__ = ["FleetObserver"]


class FleetObserver(Protocol):
    """One bulk observation per call.

    `substrates` names what it serves ("process", …; "" for services without a substrate block).  Calls come from
    several threads at once.
    """

    name: str
    substrates: frozenset[str]

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        """Read the services, each from its substrate, within a bounded time (10 s).

        `at` is the store's time, taken by the caller before the call; every answer's `observed_at` is `at` or earlier
        (a cached reading is as old as it is), never the time the answer arrived.  Services that could not be
        read, or that this observer does not serve, are left out.  Raises Retryable if nothing could be read; the caller
        treats all as unobserved and asks again on a later pass.
        """
