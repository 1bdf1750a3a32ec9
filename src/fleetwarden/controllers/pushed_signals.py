"""The provider of pushed samples: what services sent last, as answers to what is declared.

A sample answers for a signal only if its kind, unit, aggregation and scope are those declared.  Of several sources of
the same signal and service the one that was measured last answers: two that both push are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_file import PUSHED
from fleetwarden.domain.signals import Definition, NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.ports.stores import Store

__all__ = ["PushedSignals"]


class PushedSignals:
    """Reads the newest samples."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, pairs: Mapping[Pair, Definition]) -> dict[Pair, Reading]:
        """Answer for these pairs.  Raises StoreUnavailable."""
        services = list(dict.fromkeys(pair.service for pair in pairs))
        kept: dict[str, list[SentSample]] = {}
        for one in self._store.read(lambda tx: tx.pushed.of(services)):
            kept.setdefault(one.service, []).append(one)
        return {pair: _answer(pair, definition, kept.get(pair.service, ())) for pair, definition in pairs.items()}


def _answer(pair: Pair, definition: Definition, kept: list[SentSample] | tuple[()]) -> Reading:
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
    newest = max(fitting, key=lambda one: one.sampled_at or 0)
    assert newest.sampled_at is not None
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
