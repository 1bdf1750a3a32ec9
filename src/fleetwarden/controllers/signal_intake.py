"""Taking pushed samples: all of a batch or none of it, each judged before anything is kept.

What is kept replaces what was kept before; only the newest counts.  A taken batch wakes the autoscaler, in memory.  A
rejected one changes nothing, and is counted by its source and reason for people to see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from fleetwarden.domain.contract_file import DEFAULT as DEFAULT_TENANT
from fleetwarden.domain.errors import Misconfigured, Refused
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.signal_authority import Rejection, SentSample, judge, source_label
from fleetwarden.domain.signal_file import PUSHED, SignalsDocument
from fleetwarden.domain.signals import Definition
from fleetwarden.ports.attestation import SignalAuthenticator
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Rejected", "SignalIntake"]

SOURCES_COUNTED_MAX = 1000
DECLARED_SHOWN = 10  # in one sentence


class Rejected:
    """One sample that was not taken: its place in the batch, a code, and a sentence."""

    __slots__ = ("code", "index", "reason")

    def __init__(self, index: int, code: Rejection, reason: str) -> None:
        self.index = index
        self.code = code
        self.reason = reason


class SignalIntake:
    """Takes samples.  `taken`: called after a batch was kept."""

    def __init__(
        self,
        store: Store,
        configuration: ConfigurationSource,
        document: Callable[[], SignalsDocument],
        authenticator: SignalAuthenticator,
        *,
        taken: Callable[[], None],
    ) -> None:
        if authenticator.fixture:
            raise Misconfigured(
                "the fixture authenticator vouches for nothing: it is refused for pushed samples",
                hint="give an authenticator with keys",
            )
        self._store = store
        self._configuration = configuration
        self._document = document
        self._authenticator = authenticator
        self._taken = taken
        self._lock = Lock()
        self.rejections: Counter[tuple[str, str]] = Counter()  # by source and code: a metric
        self.accepted = 0

    def take(self, samples: Sequence[SentSample]) -> list[Rejected]:
        """Keep the whole batch, or say what is wrong with it and keep nothing.

        Raises Refused if it has more samples than a page may have, StoreUnavailable.
        """
        most = self._document().caps.page_size
        if len(samples) > most:
            raise Refused(
                f"{len(samples):,} samples are more than the {most:,} that one batch may have",
                code="too_large",
                hint="push several batches",
            )
        fleet = self._configuration.current().last_good_fleet

        def run(tx: Tx) -> list[Rejected]:
            found = self._judge(tx, samples, tx.now(), fleet)
            if found:
                return found
            for one in samples:
                tx.pushed.put(one)
                if one.sequence is not None:
                    tx.pushed.advance(one.source, one.sequence)
            tx.after_commit(self._taken)
            return []

        found = self._store.transact("pushed_samples", run)
        with self._lock:
            if not found:
                self.accepted += len(samples)
            for one in found:
                key = (source_label(samples[one.index].source), one.code.value)
                if key in self.rejections or len(self.rejections) < SOURCES_COUNTED_MAX:
                    self.rejections[key] += 1
        return found

    def _judge(self, tx: Tx, samples: Sequence[SentSample], now: Micros, fleet: Fleet) -> list[Rejected]:
        document = self._document()
        kinds = {(one.kind, one.unit, one.aggregation) for one in document.definitions.values() if one.source == PUSHED}
        numbered = list(dict.fromkeys(one.source for one in samples if one.sequence is not None))
        marks = dict(tx.pushed.marks(numbered))
        fresh = [one for one in numbered if one not in marks]
        most = document.caps.guard_sources
        fitting = set(fresh[: max(0, most - tx.pushed.sources())] if fresh else ())
        found: list[Rejected] = []
        for index, one in enumerate(samples):
            wrong = judge(one, now, fleet.services.keys()) or _scope(one, fleet)
            if wrong is None and (one.kind, one.unit, one.aggregation) not in kinds:
                wrong = Rejection.UNDEFINED, _undeclared(one, document.definitions)
            if wrong is None:
                wrong = self._attested(one) or _sequence(one, marks, fitting, most)
            if wrong is not None:
                found.append(Rejected(index, *wrong))
        return found

    def _attested(self, sample: SentSample) -> tuple[Rejection, str] | None:
        problem = self._authenticator.problem(sample)
        if problem is None:
            return None
        return Rejection.UNATTESTED if sample.attestation is None else Rejection.ATTESTATION, problem


def _undeclared(sample: SentSample, definitions: Mapping[str, Definition]) -> str:
    """That no signal is like this one, and which there are."""
    pushed = sorted((name, one) for name, one in definitions.items() if one.source == PUSHED)
    known = [f"{name} (kind {one.kind}, unit {one.unit}, {one.aggregation})" for name, one in pushed[:DECLARED_SHOWN]]
    more = f" and {len(pushed) - len(known)} more" if len(pushed) > len(known) else ""
    told = f"no signal of kind {sample.kind}, unit {sample.unit}, {sample.aggregation} with source: {PUSHED}"
    return f"{told} is declared in signals.yml; declared: {', '.join(known) + more if known else 'none'}"


def _sequence(sample: SentSample, marks: dict[str, int], fitting: set[str], most: int) -> tuple[Rejection, str] | None:
    if sample.sequence is None:
        return None
    known = marks.get(sample.source)
    if known is None and sample.source not in fitting:
        return Rejection.GUARD_FULL, f"{most:,} sources are remembered: no new one is taken"
    if known is not None and sample.sequence <= known:
        return Rejection.REPLAYED, f"sequence {sample.sequence} is not above {known}"
    marks[sample.source] = sample.sequence
    return None


def _scope(sample: SentSample, fleet: Fleet) -> tuple[Rejection, str] | None:
    """Why a sample is about another tenant or unit than its service is of; one that names none is about its own."""
    if sample.scale_unit not in ("", sample.service):
        return Rejection.SCOPE, f"{sample.service} has no unit {sample.scale_unit!r}"
    unit = fleet.catalogue.units.get(sample.service)
    workload = None if unit is None else fleet.catalogue.workloads.get(unit.workload)
    tenant = DEFAULT_TENANT if workload is None else workload.tenant
    if sample.tenant not in ("", tenant):
        return Rejection.SCOPE, f"{sample.service} is of tenant {tenant!r}, not of {sample.tenant!r}"
    return None
