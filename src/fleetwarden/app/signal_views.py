"""Signals for people and programs: taking pushed samples, and showing what each declared signal answers now.

Whoever pushes needs the role `ingest`.  A batch is taken whole or refused whole, with a reason for each sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.signal_intake import Rejected, SignalIntake
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.identifiers import JsonValue, Micros, rfc3339, seconds
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_file import SignalsDocument
from fleetwarden.domain.signal_rules import check
from fleetwarden.domain.signals import NoSample, Pair, Reading, SampleFault
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.ports.stores import Store

__all__ = ["SAMPLES_MAX", "Signals", "readings_of"]

SAMPLES_MAX = 1_000


class Signals:
    """What a running plane offers."""

    def __init__(
        self,
        intake: SignalIntake,
        store: Store,
        configuration: ConfigurationSource,
        document: Callable[[], SignalsDocument],
        provider: ScalingSignalProvider,
    ) -> None:
        self._intake = intake
        self._store = store
        self._configuration = configuration
        self._document = document
        self._provider = provider

    def readings(self, caller: Caller) -> dict[str, JsonValue]:
        """What every signal answers now.  Raises Forbidden, Retryable (the source cannot be asked)."""
        require(caller, Role.VIEWER)
        found = readings_of(self._configuration.current(), self._document(), self._provider, self._store)
        return {"items": found}

    def push(self, caller: Caller, samples: Sequence[SentSample]) -> list[Rejected]:
        """Take a batch; what was wrong with it, or nothing.  Raises Forbidden, StoreUnavailable."""
        require(caller, Role.INGEST)
        return self._intake.take(samples)

    def counts(self) -> tuple[int, dict[tuple[str, str], int]]:
        """Samples taken, and rejections by source and code, since this plane started."""
        return self._intake.accepted, dict(self._intake.rejections)


def readings_of(
    configuration: Configuration, document: SignalsDocument, provider: ScalingSignalProvider, store: Store
) -> list[dict[str, JsonValue]]:
    """Every signal that a service scales on, as its source answers now."""
    services = configuration.last_good_fleet.services
    pairs = [
        Pair(service=name, signal=target.signal)
        for name, one in sorted(services.items())
        if one.scaling is not None
        for target in one.scaling.signals
    ]
    asked = {(pair.signal, pair.service) for pair in pairs}
    for signal, definition in sorted(document.definitions.items()):
        pairs += [Pair(service=name, signal=signal) for name in definition.services if (signal, name) not in asked]
    now = store.read(lambda tx: tx.now())
    try:
        answers = provider.signal_values(pairs, now) if pairs else {}
    except Retryable as error:
        return [_told(pair, _failed(pair, str(error)), document, now) for pair in pairs]
    return [_told(pair, answers.get(pair), document, now) for pair in pairs]


def _failed(pair: Pair, why: str) -> Reading:
    return NoSample(service=pair.service, signal=pair.signal, fault=SampleFault.SOURCE_FAILED, reason=why)


def _told(pair: Pair, reading: Reading | None, document: SignalsDocument, now: Micros) -> dict[str, JsonValue]:
    definition = document.definition(pair.service, pair.signal)
    base: dict[str, JsonValue] = {
        "signal": pair.signal,
        "service": pair.service,
        "source": "" if definition is None else definition.source,
        "unit": None if definition is None else definition.unit,
        "aggregation": None if definition is None else definition.aggregation.value,
        "max_age_s": None if definition is None else definition.max_age_s,
    }
    judged = check(pair, reading, definition, now, 0)  # as the autoscaler judges it, but for what it used before
    if isinstance(judged, NoSample):
        told: dict[str, JsonValue] = {"fault": judged.fault.value, "reason": judged.reason}
        return {**base, "value": None, "age_s": judged.age_s, "observed_at": None, **told}
    return {
        **base,
        "value": judged.value,
        "age_s": round(seconds(now - judged.observed_at), 3),
        "observed_at": rfc3339(judged.observed_at),
        "fault": None,
        "reason": "",
        "series": judged.series,
    }
