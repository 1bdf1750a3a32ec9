"""Gauges of this process: a value and the moment at which it was read, set together and read together.

Each gauge answers for exactly the services that its definition names, whoever asks; a number of the whole plane is
never relabelled to the service that wants one.  A gauge that was never set is no data, and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.shipped_signals import CONSUMER_LAG, LOCAL, QUEUE_DEPTH
from fleetwarden.domain.signals import Definition, NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.ports.stores import Store

__all__ = ["LocalGauges", "QueueGauges"]


class LocalGauges:
    """A `ScalingSignalProvider` over values that this process sets.  `definitions`: by name, each naming the services
    that it answers for; they never change."""

    name = LOCAL

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        """Raises Misconfigured for a definition that names no service."""
        for name, one in definitions.items():
            if not one.services:
                raise Misconfigured(f"gauge {name} names no service", hint="services=(…) says whom it answers for")
        self._definitions = dict(definitions)
        self._lock = Lock()
        self._kept: dict[Pair, tuple[float, Micros]] = {}

    def set(self, service: str, signal: str, value: float, observed_at: Micros) -> None:
        """Set one gauge.  `observed_at`: when it was read, on the store's time scale.  Raises Misconfigured for a
        pair that is not defined."""
        self.set_all(service, {signal: value}, observed_at)

    def set_all(self, service: str, values: Mapping[str, float], observed_at: Micros) -> None:
        """Set gauges that were read together; no reader sees some of them new and others old."""
        made = {Pair(service=service, signal=signal): (value, observed_at) for signal, value in values.items()}
        for pair in made:
            if not self._defines(pair):
                raise Misconfigured(f"no gauge {pair.signal} of {pair.service} is defined")
        with self._lock:
            self._kept.update(made)

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:  # noqa: ARG002 -- the port's
        """See ScalingSignalProvider: one look at all gauges, under one lock."""
        with self._lock:
            kept = {pair: self._kept.get(pair) for pair in pairs}
        return {pair: self._reading(pair, one) for pair, one in kept.items()}

    def _defines(self, pair: Pair) -> bool:
        found = self._definitions.get(pair.signal)
        return found is not None and pair.service in found.services

    def _reading(self, pair: Pair, kept: tuple[float, Micros] | None) -> Reading:
        if not self._defines(pair):
            return self._none(pair, SampleFault.UNDEFINED, f"no gauge {pair.signal} of {pair.service} is defined")
        if kept is None:
            return self._none(pair, SampleFault.MISSING, "the gauge was never set")
        definition = self._definitions[pair.signal]
        return Sample(
            service=pair.service,
            signal=pair.signal,
            value=kept[0],
            source=self.name,
            aggregation=definition.aggregation,
            unit=definition.unit,
            scope=definition.scope,
            observed_at=kept[1],
        )

    def _none(self, pair: Pair, fault: SampleFault, reason: str) -> NoSample:
        return NoSample(service=pair.service, signal=pair.signal, fault=fault, reason=reason, source=self.name)


class QueueGauges:
    """The plane's own queue of work as gauges of one service: the one whose replicas work on it."""

    def __init__(self, store: Store, service: str, definitions: Mapping[str, Definition]) -> None:
        self._store = store
        self._service = service
        self._gauges = LocalGauges(definitions)

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """See ScalingSignalProvider.  Raises StoreUnavailable."""
        (waiting, unfinished), now = self._store.read(lambda tx: (tx.work.depth(), tx.now()))
        self._gauges.set_all(self._service, {QUEUE_DEPTH: waiting, CONSUMER_LAG: unfinished}, now)
        return self._gauges.signal_values(pairs, at)
