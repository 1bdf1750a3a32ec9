"""A provider over a source that is read page by page: of everything that the pages hold, one answer for each pair.

A sample answers for a signal only if its kind, unit, aggregation and unit of scale are those declared.  Of several
sources of the same signal and service the one that was measured last answers: two are never added up.  What was refused
answers for nothing; if nothing better was read, its reason is told.  Kept is one candidate for each pair that was
asked, whatever the source holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fleetwarden.controllers.signal_reading import SignalReader
from fleetwarden.domain.identifiers import SECOND, Micros, canonical_json, seconds
from fleetwarden.domain.signal_authority import Rejection, SentSample, source_label
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_pages import PageRejection, SignalPage
from fleetwarden.domain.signal_query import SignalQuery
from fleetwarden.domain.signals import AGE_MAX_S, Definition, NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.ports.attestation import SignalAuthenticator
from fleetwarden.ports.signal_pages import SignalPageSource

__all__ = ["PagedSignals", "answers_of", "query_for"]

_FAULTS: Mapping[Rejection, SampleFault] = {
    Rejection.STALE: SampleFault.STALE,
    Rejection.FUTURE: SampleFault.FUTURE,
    Rejection.NOT_FINITE: SampleFault.NOT_FINITE,
    Rejection.NEGATIVE: SampleFault.NEGATIVE,
    Rejection.TOO_LARGE: SampleFault.TOO_LARGE,
    Rejection.REPLAYED: SampleFault.REPLAYED,
    Rejection.GUARD_FULL: SampleFault.REPLAYED,
    Rejection.UNATTESTED: SampleFault.UNTRUSTED,
    Rejection.ATTESTATION: SampleFault.UNTRUSTED,
    Rejection.SOURCE: SampleFault.UNTRUSTED,
    Rejection.CREDENTIALS: SampleFault.UNTRUSTED,
}  # whatever else is wrong with a sample is a mismatch


class PagedSignals:
    """A `ScalingSignalProvider` over one page source.

    `definitions`: what each signal is declared as, by name; its services are those that it answers for ((): all).
    `authenticator`: None only for a source that is not remote.  `monotonic`: seconds of a clock that never goes back.
    Raises Misconfigured if what is remote would be taken on trust.
    """

    def __init__(
        self,
        source: SignalPageSource,
        definitions: Mapping[str, Definition],
        *,
        authenticator: SignalAuthenticator | None,
        monotonic: Callable[[], float],
        caps: SignalCaps = GLOBAL_CAPS,
    ) -> None:
        self.name = source.name
        self._reader = SignalReader(source, authenticator=authenticator, monotonic=monotonic, caps=caps)
        self._definitions = dict(definitions)
        self._caps = caps

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """See ScalingSignalProvider.  Raises Retryable if the source cannot be read to its end, Refused for a source
        that breaks its contract; what was read until then counts for nothing."""
        wanted = {pair: one for pair in pairs if (one := self._declared(pair)) is not None}
        undefined = {
            pair: NoSample(
                service=pair.service,
                signal=pair.signal,
                fault=SampleFault.UNDEFINED,
                reason=f"{self.name} does not define {pair.signal} for {pair.service}",
                source=self.name,
            )
            for pair in pairs
            if pair not in wanted
        }
        if not wanted:
            return undefined
        query = query_for(self.name, wanted.values(), at, self._caps)
        services = {pair.service for pair in wanted}
        pages = self._reader.pages(query, at, services)
        return {**undefined, **answers_of(pages, wanted, at, self.name)}

    def _declared(self, pair: Pair) -> Definition | None:
        found = self._definitions.get(pair.signal)
        return found if found is not None and (not found.services or pair.service in found.services) else None


def query_for(name: str, definitions: Iterable[Definition], at: Micros, caps: SignalCaps) -> SignalQuery:
    """What is asked of a page source for these definitions: their kinds, over the time in which a sample is fresh."""
    kinds = sorted({one.kind for one in definitions})
    window = min(AGE_MAX_S, caps.window_s)
    return SignalQuery(
        text=canonical_json({"source": name, "kinds": kinds}).decode(),
        window_start=max(0, at - int(window * SECOND)),
        window_end=at,
        timeout_s=caps.timeout_s,
        page_size=caps.page_size,
        max_items=caps.items,
    )


def answers_of(
    pages: Iterable[SignalPage], wanted: Mapping[Pair, Definition], now: Micros, name: str
) -> dict[Pair, Reading]:
    """One reading for each pair that is wanted.  Raises what walking the pages raises."""
    by_service: dict[str, list[tuple[Pair, Definition]]] = {}
    for pair, definition in wanted.items():
        by_service.setdefault(pair.service, []).append((pair, definition))
    best: dict[Pair, SentSample] = {}
    refused: dict[Pair, PageRejection] = {}
    cut = False
    for page in pages:
        cut = page.cut
        for sample in page.samples:
            for pair, definition in by_service.get(sample.service, ()):
                if _fits(sample, definition) and (pair not in best or _at(best[pair]) < _at(sample)):
                    best[pair] = sample
        for one in page.rejections:
            for pair, definition in by_service.get(one.refused.service, ()):
                if _fits(one.refused, definition) and (
                    pair not in refused or _at(refused[pair].refused) < _at(one.refused)
                ):
                    refused[pair] = one
    return {
        pair: _answer(pair, definition, best.get(pair), refused.get(pair), now, name, cut=cut)
        for pair, definition in wanted.items()
    }


def _at(sample: SentSample) -> Micros:
    return sample.sampled_at or 0


def _fits(sample: SentSample, definition: Definition) -> bool:
    return (
        sample.kind == definition.kind
        and sample.unit == definition.unit
        and sample.aggregation == definition.aggregation
        and sample.scale_unit in ("", sample.service)
    )


def _answer(
    pair: Pair,
    definition: Definition,
    sample: SentSample | None,
    refused: PageRejection | None,
    now: Micros,
    name: str,
    *,
    cut: bool,
) -> Reading:
    if sample is not None:
        return Sample(
            service=pair.service,
            signal=pair.signal,
            value=sample.value,
            source=sample.source,
            aggregation=sample.aggregation,
            unit=sample.unit,
            scope=definition.scope,
            observed_at=_at(sample),
            confidence=sample.confidence,
        )
    fault, reason, age, source = SampleFault.MISSING, f"no sample of kind {definition.kind.value}", None, name
    if refused is not None:
        fault, reason = _FAULTS.get(refused.code, SampleFault.MISMATCH), refused.reason
        source = source_label(refused.refused.source)
        if refused.refused.sampled_at is not None:
            age = seconds(now - refused.refused.sampled_at)
    elif cut:
        fault, reason = SampleFault.NOT_ASKED, "the read ended at its most samples before it came to one"
    return NoSample(service=pair.service, signal=pair.signal, fault=fault, reason=reason, age_s=age, source=source)
