"""The provider of pushed samples: what services sent last, as answers to what is declared.

A sample answers for a signal only if its kind, unit, aggregation and scope are those declared, and only for as long as
it says of itself (`freshness_s`).  Of several sources of the same signal and service the one that was measured last
answers: two that both push are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.domain.identifiers import SECOND, Micros, seconds
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_file import PUSHED
from fleetwarden.domain.signals import Definition, NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.ports.stores import Store, Tx

__all__ = ["PushedSignals"]


class PushedSignals:
    """Reads the newest samples."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, pairs: Mapping[Pair, Definition]) -> dict[Pair, Reading]:
        """Answer for these pairs.  Raises StoreUnavailable."""
        services = list(dict.fromkeys(pair.service for pair in pairs))

        def look(tx: Tx) -> tuple[Sequence[SentSample], Micros]:
            return tx.pushed.of(services), tx.now()

        found, now = self._store.read(look)
        kept: dict[str, list[SentSample]] = {}
        for one in found:
            kept.setdefault(one.service, []).append(one)
        return {pair: _answer(pair, definition, kept.get(pair.service, ()), now) for pair, definition in pairs.items()}


def _answer(pair: Pair, definition: Definition, kept: Sequence[SentSample], now: Micros) -> Reading:
    fitting = [
        one
        for one in kept
        if one.kind == definition.kind
        and one.unit == definition.unit
        and one.aggregation == definition.aggregation
        and one.scale_unit in ("", pair.service)
        and one.sampled_at is not None
    ]
    if not fitting:
        return NoSample(
            service=pair.service,
            signal=pair.signal,
            fault=SampleFault.MISSING,
            reason=f"no sample of kind {definition.kind.value} was pushed",
            source=PUSHED,
        )
    newest = max(fitting, key=lambda one: (now <= _ends(one), one.sampled_at or 0))
    assert newest.sampled_at is not None
    if now > _ends(newest):
        age = seconds(now - newest.sampled_at)
        return NoSample(
            service=pair.service,
            signal=pair.signal,
            fault=SampleFault.STALE,
            reason=f"it is {age:.1f} s old, by its own freshness_s {newest.freshness_s:g} s are allowed",
            age_s=age,
            source=newest.source,
        )
    return Sample(
        service=pair.service,
        signal=pair.signal,
        value=newest.value,
        source=newest.source,
        aggregation=newest.aggregation,
        unit=newest.unit,
        scope=definition.scope,
        observed_at=newest.sampled_at,
    )


def _ends(sample: SentSample) -> Micros:
    """The last moment at which it may be used, by what it says of itself."""
    return (sample.sampled_at or 0) + int(sample.freshness_s * SECOND)
