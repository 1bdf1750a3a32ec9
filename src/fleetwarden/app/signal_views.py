"""Signals for people and programs: taking pushed samples, and showing what each declared signal answers now.

Whoever pushes needs the role `ingest`.  A batch is taken whole or refused whole, with a reason for each sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.controllers.signal_intake import Rejected, SignalIntake
from fleetwarden.domain.errors import Misconfigured, Refused, Retryable
from fleetwarden.domain.identifiers import JsonValue, Micros, digest, rfc3339, seconds
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_caps import GLOBAL_CAPS
from fleetwarden.domain.signal_file import SignalsDocument
from fleetwarden.domain.signal_query import Position, SignalFault, cursor_of, position_of
from fleetwarden.domain.signal_rules import check
from fleetwarden.domain.signals import NoSample, Pair, Reading, SampleFault
from fleetwarden.domain.unit_check import declared_problem
from fleetwarden.ports.configuration import Configuration, ConfigurationSource
from fleetwarden.ports.signals import ScalingSignalProvider
from fleetwarden.ports.stores import Store

__all__ = ["SAMPLES_MAX", "Signals", "pairs_of", "readings_of"]

SAMPLES_MAX = GLOBAL_CAPS.page_size
PAGE_DEFAULT = 500
_LIST = digest("readings of signals")  # what the cursors of this list are bound to, beside its snapshot


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

    def readings(self, caller: Caller, *, limit: int | None = None, cursor: str = "") -> dict[str, JsonValue]:
        """One page of what every signal answers now: `{items, next, snapshot}`, in the order of `pairs_of`.

        `limit`: 1 to the cap of a page (`caps.page_size`); None: the smaller of that and 500.  `cursor`: `next` of the
        page before.  Raises Forbidden, Misconfigured (limit), Refused (`malformed_cursor`, `query_digest`,
        `snapshot_changed`), StoreUnavailable.
        """
        require(caller, Role.VIEWER)
        document = self._document()
        most = document.caps.page_size
        limit = min(most, PAGE_DEFAULT) if limit is None else limit
        if not 1 <= limit <= most:
            raise Misconfigured(f"limit {limit} is out of range", hint=f"1 to {most}")
        pairs = pairs_of(self._configuration.current(), document)
        snapshot = digest([document.digest, pairs])
        place = Position(query_digest=_LIST, snapshot=snapshot, after="", number=0, items=0)
        if cursor:
            place = position_of(cursor, _LIST)
            if place.snapshot != snapshot:
                raise Refused(
                    "what is declared has changed since the first page",
                    code=SignalFault.SNAPSHOT_CHANGED.value,
                    hint="begin without a cursor",
                )
        end = place.items + limit
        after = Position(query_digest=_LIST, snapshot=snapshot, after=str(end), number=place.number + 1, items=end)
        items = readings_of(pairs[place.items : end], document, self._provider, self._store)
        return {
            "items": [_with_target(one, self._configuration.current()) for one in items],
            "next": cursor_of(after) if end < len(pairs) else None,
            "snapshot": snapshot,
        }

    def push(self, caller: Caller, samples: Sequence[SentSample]) -> list[Rejected]:
        """Take a batch; what was wrong with it, or nothing.  Raises Forbidden, StoreUnavailable."""
        require(caller, Role.INGEST)
        return self._intake.take(samples)

    def counts(self) -> tuple[int, dict[tuple[str, str], int]]:
        """Samples taken, and rejections by source and code, since this plane started."""
        return self._intake.accepted, dict(self._intake.rejections)


def _with_target(item: dict[str, JsonValue], configuration: Configuration) -> dict[str, JsonValue]:
    """An answer beside what its service scales on: a target that does not go with the unit is a fault."""
    service = configuration.last_good_fleet.services.get(str(item["service"]))
    block = None if service is None else service.scaling
    for one in () if block is None or service is None else block.signals:
        wrong = declared_problem(str(item["unit"] or ""), one.target) if one.signal == item["signal"] else ""
        if wrong and service is not None:
            return {**item, "fault": SampleFault.MISMATCH.value, "reason": f"{service.source}: {wrong}"}
    return item


def pairs_of(configuration: Configuration, document: SignalsDocument) -> list[Pair]:
    """Every signal that a service scales on, then those that are declared for one that does not."""
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
    return pairs


def readings_of(
    pairs: Sequence[Pair], document: SignalsDocument, provider: ScalingSignalProvider, store: Store
) -> list[dict[str, JsonValue]]:
    """These signals, as their sources answer now."""
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
