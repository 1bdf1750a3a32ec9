"""Signals that a test sets: a provider in memory.

It keeps a copy of what it is given, so that a test's own mapping can change without the provider noticing, and it may
be used from several threads.  A service without a value is an error, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signals import Aggregation, NoSample, Pair, Reading, Sample, SampleFault, SignalScope

__all__ = ["FakeSignals"]


class FakeSignals:
    """A `ScalingSignalProvider`.  `asked` counts the batches, `batches` keeps what was asked in the last one."""

    name = "fake"

    def __init__(
        self,
        values: Mapping[tuple[str, str], float] | None = None,
        *,
        aggregation: Aggregation = Aggregation.FLEET_TOTAL,
        unit: str = "items",
    ) -> None:
        """`values`: by (service, signal); all of the same aggregation and unit."""
        self._lock = Lock()
        self._values = dict(values or {})
        self._errors: dict[tuple[str, str], NoSample] = {}
        self._ages: dict[tuple[str, str], float] = {}
        self._series: dict[tuple[str, str], int] = {}
        self._times: dict[tuple[str, str], Micros | None] = {}
        self._aggregation = aggregation
        self._unit = unit
        self._broken = ""
        self.asked = 0
        self.last_batch: tuple[Pair, ...] = ()

    def set(
        self,
        service: str,
        signal: str,
        value: float,
        *,
        age_s: float = 0.0,
        observed_at: Micros | None = None,
        series: int = 0,
    ) -> None:
        """Answer with this value from now on, measured `age_s` seconds before each question, or at `observed_at`.
        `series`: how many series it is made of, 0 where nobody counts them."""
        with self._lock:
            self._values[service, signal] = value
            self._ages[service, signal] = age_s
            self._series[service, signal] = series
            self._times[service, signal] = observed_at
            self._errors.pop((service, signal), None)

    def set_error(
        self, service: str, signal: str, fault: SampleFault = SampleFault.MISSING, reason: str = "as the test says"
    ) -> None:
        """Answer with no sample from now on."""
        with self._lock:
            self._errors[service, signal] = NoSample(service=service, signal=signal, fault=fault, reason=reason)

    def fail(self, why: str) -> None:
        """Raise Retryable at each question from now on; "" ends that."""
        with self._lock:
            self._broken = why

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """See ScalingSignalProvider."""
        with self._lock:
            self.asked += 1
            self.last_batch = tuple(pairs)
            if self._broken:
                raise Retryable(self._broken)
            return {pair: self._one(pair, at) for pair in pairs}

    def _one(self, pair: Pair, at: Micros) -> Reading:
        key = (pair.service, pair.signal)
        if key in self._errors:
            return self._errors[key]
        if key not in self._values:
            return NoSample(
                service=pair.service, signal=pair.signal, fault=SampleFault.MISSING, reason="no value was set"
            )
        measured = self._times.get(key)
        return Sample(
            service=pair.service,
            signal=pair.signal,
            value=self._values[key],
            source=self.name,
            aggregation=self._aggregation,
            unit=self._unit,
            scope=SignalScope.SERVICE,
            observed_at=at - round(self._ages.get(key, 0.0) * SECOND) if measured is None else measured,
            series=self._series.get(key, 0),
        )
