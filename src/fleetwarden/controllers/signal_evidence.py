"""What a wish rests on: which queries were asked, of which moment, over which window, and what came of them.

The exact text of the queries is kept once in the store, by its digest; what travels with a decision is a projection of
bounded size.  Services that share their definitions share one text and one query, so that a fleet that wants to move at
once costs little more than one service.  Nothing here reads a signal or judges one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, canonical_json, rfc3339
from fleetwarden.domain.signal_pages import SignalDecisionEvidence, SignalSummary
from fleetwarden.domain.signal_query import SignalQuery
from fleetwarden.domain.signals import AGE_MAX_S, Definition, NoSample, Reading, Sample, SampleFault
from fleetwarden.ports.stores import Tx

__all__ = ["Evidences", "KeptQueries"]

Declared = Callable[[str, str], Definition | None]
KEPT_MAX = 4_096  # digests that are remembered; a text that is kept again costs one statement
_UNREAD = (SampleFault.NOT_ASKED, SampleFault.SOURCE_FAILED, SampleFault.TIMED_OUT)


class Evidences:
    """Makes the evidence of one tick.  `at`: the moment to which its signals were read."""

    def __init__(self, declared: Declared, at: Micros) -> None:
        self._declared = declared
        self._at = at
        self._queries: dict[tuple[tuple[str, Definition | None], ...], tuple[SignalQuery, str]] = {}

    def of(self, service: str, readings: Sequence[Reading], digest: str) -> SignalDecisionEvidence:
        """The evidence of one service's readings.  `digest`: of what they said, as the intent names it."""
        declared = tuple((one.signal, self._declared(service, one.signal)) for one in readings)
        if declared not in self._queries:
            query = self._query(declared)
            self._queries[declared] = query, query.digest()
        query, query_digest = self._queries[declared]
        samples = [one for one in readings if isinstance(one, Sample)]
        faults = [one.fault for one in readings if isinstance(one, NoSample)]
        times = [one.observed_at for one in samples]
        by_name = {name: one.kind.value for name, one in declared if one is not None}
        summary = SignalSummary(
            query_digest=query_digest,
            snapshot=query.snapshot,
            window_start=query.window_start,
            window_end=query.window_end,
            pages=1,
            samples=len(samples),
            kinds=_counted([by_name[one.signal] for one in samples if one.signal in by_name]),
            rejected=_counted([one.value for one in faults]),
            oldest=min(times, default=None),
            newest=max(times, default=None),
            digest=digest,
            complete=not any(one in _UNREAD for one in faults),
        )
        return SignalDecisionEvidence(
            text=query.text,
            query_digest=query_digest,
            snapshot=query.snapshot,
            window_start=query.window_start,
            window_end=query.window_end,
            summary=summary,
        )

    def _query(self, declared: Sequence[tuple[str, Definition | None]]) -> SignalQuery:
        return SignalQuery(
            text=canonical_json([_asked(name, one) for name, one in declared]).decode(),
            window_start=max(0, self._at - int(AGE_MAX_S * SECOND)),
            window_end=self._at,
            snapshot=str(rfc3339(self._at)),
        )


def _asked(name: str, definition: Definition | None) -> dict[str, JsonValue]:
    """What was asked for one signal: its definition's own words, or the symbol alone where nothing is declared."""
    if definition is None:
        return {"signal": name}
    fields = ("source", "query", "by", "age_of", "unit")
    told: dict[str, JsonValue] = {one: getattr(definition, one) for one in fields if getattr(definition, one)}
    return {
        "signal": name,
        "kind": definition.kind.value,
        "aggregation": definition.aggregation.value,
        "scope": definition.scope.value,
        **told,
    }


def _counted(words: Sequence[str]) -> Mapping[str, int]:
    return {one: words.count(one) for one in words}


class KeptQueries:
    """Keeps the texts of queries that decisions name by digest, each once.  Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: set[str] = set()

    def keep(self, tx: Tx, texts: Sequence[str]) -> None:
        """Keep these texts.  Part of the caller's transaction, which writes what names them."""
        fresh = [one for one in dict.fromkeys(texts) if one and one not in self._kept]
        for one in fresh:
            tx.texts.keep(kind="query", name="signals", body=one)
        if fresh:
            tx.after_commit(lambda: self._remember(fresh))

    def _remember(self, texts: Sequence[str]) -> None:
        with self._lock:
            if len(self._kept) + len(texts) > KEPT_MAX:
                self._kept = set()
            self._kept.update(texts)
