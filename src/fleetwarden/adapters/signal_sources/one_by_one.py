"""A provider without the bulk call, read one pair after the other: in this process only, and bounded in time.

Whoever asks over a network would wait once for each pair that hangs, so that only a provider which is marked as trusted
in this process is read like this; every other one is refused when it is given, long before anything rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import structlog

from fleetwarden.domain.errors import Misconfigured, Retryable
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.signals import NoSample, Pair, Reading, Sample, SampleFault
from fleetwarden.ports.signals import ScalingSignalProvider, SignalProvider, SingleSignalProvider

__all__ = ["BATCH_S", "OneByOne", "as_provider"]

log = structlog.get_logger(__name__)
BATCH_S = 10.0  # what a bulk call has for all pairs


class OneByOne:
    """Makes a `ScalingSignalProvider` of a `SingleSignalProvider`.  `monotonic`: seconds of a clock that never goes
    back.  Pairs that a batch did not come to are the first of the next one."""

    def __init__(self, single: SingleSignalProvider, monotonic: Callable[[], float]) -> None:
        self.name = single.name
        self._single = single
        self._monotonic = monotonic
        self._lock = Lock()
        self._from: Pair | None = None

    def signal_values(self, pairs: Sequence[Pair], at: Micros) -> Mapping[Pair, Reading]:
        """See ScalingSignalProvider.  Raises Retryable only if every pair that was asked failed."""
        ordered = self._in_turn(pairs)
        until = self._monotonic() + BATCH_S
        answers: dict[Pair, Reading] = {}
        failed = 0
        for number, pair in enumerate(ordered):
            if self._monotonic() >= until:
                self._stopped_at(pair)
                reason = f"the {BATCH_S:g} s of one batch are over: its turn comes"
                rest = ordered[number:]
                answers |= {one: self._none(one, SampleFault.NOT_ASKED, reason) for one in rest}
                break
            answers[pair] = self._one(pair, at)
            failed += _failed(answers[pair])
        else:
            self._stopped_at(None)
        if pairs and failed == sum(not _unasked(one) for one in answers.values()) > 0:
            first = next(one for one in answers.values() if isinstance(one, NoSample) and _failed(one))
            raise Retryable(f"{self.name} answers for no pair: {first.reason}")
        return answers

    def _in_turn(self, pairs: Sequence[Pair]) -> list[Pair]:
        with self._lock:
            first = self._from
        places = {pair: number for number, pair in enumerate(pairs)}
        begin = 0 if first is None else places.get(first, 0)
        return [*pairs[begin:], *pairs[:begin]]

    def _stopped_at(self, pair: Pair | None) -> None:
        with self._lock:
            self._from = pair

    def _one(self, pair: Pair, at: Micros) -> Reading:
        try:
            found: object = self._single.signal_value(pair, at)
        except Retryable as error:
            return self._none(pair, SampleFault.SOURCE_FAILED, str(error))
        except Exception as error:  # it may be anybody's code, and one pair must not spoil the others
            log.exception("signal provider failed", provider=self.name, service=pair.service, signal=pair.signal)
            return self._none(pair, SampleFault.SOURCE_FAILED, f"{type(error).__name__}: {error}"[:300])
        if isinstance(found, Sample | NoSample):
            return found
        return self._none(pair, SampleFault.SOURCE_FAILED, f"it answered a {type(found).__name__}, which is no reading")

    def _none(self, pair: Pair, fault: SampleFault, reason: str) -> NoSample:
        return NoSample(service=pair.service, signal=pair.signal, fault=fault, reason=reason, source=self.name)


def _failed(reading: Reading) -> bool:
    return isinstance(reading, NoSample) and reading.fault is SampleFault.SOURCE_FAILED


def _unasked(reading: Reading) -> bool:
    return isinstance(reading, NoSample) and reading.fault is SampleFault.NOT_ASKED


def as_provider(given: SignalProvider, monotonic: Callable[[], float]) -> ScalingSignalProvider:
    """What answers in bulk, out of what was given.  Raises Misconfigured for what cannot be read safely."""
    kind = type(given).__name__
    if not isinstance(getattr(given, "name", None), str):
        raise Misconfigured(f"{kind} cannot be used: it has no name", hint="ScalingSignalProvider says what is needed")
    if callable(getattr(given, "signal_values", None)):
        return given  # type: ignore[return-value]
    if not callable(getattr(given, "signal_value", None)):
        raise Misconfigured(
            f"{kind} cannot be used: it has no signal_values",
            hint="the Protocols in fleetwarden.ports say what is needed",
        )
    if getattr(given, "trusted_in_process", False) is not True or getattr(given, "remote", False):
        raise Misconfigured(
            f"{kind} cannot be used: it has no bulk call signal_values, and is not marked as trusted in this process",
            hint="answer all pairs in one signal_values; trusted_in_process = True is for what answers from memory",
        )
    return OneByOne(given, monotonic)  # type: ignore[arg-type]
