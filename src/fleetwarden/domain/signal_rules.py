"""When a sample may be believed: the consumer's own rules, whatever the provider promised.

A sample is judged by what it says of itself, by what the deployment declared, and by the last one that was used.  A
sample that is not believed is a reason, never a number.
"""

from __future__ import annotations

import math

from fleetwarden.domain.identifiers import SECOND, Micros, seconds
from fleetwarden.domain.signals import AGE_MAX_S, SKEW_MAX_S, Definition, NoSample, Pair, Reading, Sample, SampleFault

__all__ = ["VALUE_MAX", "check"]

VALUE_MAX = 1e15  # no demand is larger; a counter that ran away, or a unit mistaken, is
_AGE_MAX_US: Micros = int(AGE_MAX_S * SECOND)
_SKEW_MAX_US: Micros = int(SKEW_MAX_S * SECOND)


def check(
    pair: Pair, reading: Reading | None, definition: Definition | None, now: Micros, last_used: Micros
) -> Reading:
    """The sample, or why it is none.

    `last_used`: the time of the newest sample of this pair that was used, 0 if none was; the same sample again is
    believed, and whoever counts samples counts it once.  `definition` None: nothing was declared, and the sample is
    only held against itself.
    """
    if reading is None:
        return _none(pair, SampleFault.MISSING, "the provider did not answer for it")
    if isinstance(reading, NoSample):
        return reading
    if (wrong := _no_sample(reading)) is not None:  # a provider may be anybody's code, and spoils its own pair only
        return _none(pair, SampleFault.MISMATCH, wrong)
    if reading.service != pair.service or reading.signal != pair.signal:
        told = f"the answer is about {reading.signal} of {reading.service}"
        return _none(pair, SampleFault.MISMATCH, told, reading, now)
    value = reading.value
    if not math.isfinite(value):
        return _none(pair, SampleFault.NOT_FINITE, f"its value is {value}", reading, now)
    if value < 0:
        return _none(pair, SampleFault.NEGATIVE, f"its value is {value:g}, below 0", reading, now)
    if value > VALUE_MAX:
        return _none(pair, SampleFault.TOO_LARGE, f"its value is {value:g}, above {VALUE_MAX:g}", reading, now)
    if definition is not None and (wrong := _mismatch(reading, definition)) is not None:
        return _none(pair, SampleFault.MISMATCH, wrong, reading, now)
    most = _AGE_MAX_US if definition is None else min(_AGE_MAX_US, int(definition.max_age_s * SECOND))
    age = now - reading.observed_at
    if age > most:
        return _none(
            pair, SampleFault.STALE, f"it is {seconds(age):.1f} s old, {seconds(most):g} s are allowed", reading, now
        )
    if -age > _SKEW_MAX_US:
        told = f"it is dated {seconds(-age):.1f} s ahead, {SKEW_MAX_S:g} s are allowed"
        return _none(pair, SampleFault.FUTURE, told, reading, now)
    if reading.observed_at < last_used:
        return _none(pair, SampleFault.REPLAYED, "it is older than the last one that was used", reading, now)
    return reading


def _no_sample(reading: object) -> str | None:
    """Why an answer is no sample at all, whatever the provider's types promise; None if it is one."""
    if not isinstance(reading, Sample):
        return f"the provider answered with {type(reading).__name__}, which is no sample"
    value, at, series = reading.value, reading.observed_at, reading.series
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"its value is {type(value).__name__}, which is no number"
    if isinstance(value, int) and abs(value) > 2**63:
        return "its value is no number that a measurement can have"
    if type(at) is not int or not 0 <= at < 2**62:
        return "its observed_at is no time in microseconds since 1970"
    sure: object = reading.confidence
    if isinstance(sure, bool) or not isinstance(sure, int | float) or not 0 <= sure <= 1:
        return "its confidence is no number from 0 to 1"
    if type(series) is not int:
        return "its series is no whole number"
    return None


def _mismatch(sample: Sample, definition: Definition) -> str | None:
    for name in ("aggregation", "unit", "scope"):
        declared, said = getattr(definition, name), getattr(sample, name)
        if declared != said:
            return f"its {name} is {said}, declared is {declared} ({definition.file}:{definition.line})"
    return None


def _none(
    pair: Pair, fault: SampleFault, reason: str, sample: Sample | None = None, now: Micros | None = None
) -> NoSample:
    age = None if sample is None or now is None else seconds(now - sample.observed_at)
    return NoSample(
        service=pair.service,
        signal=pair.signal,
        fault=fault,
        reason=reason,
        age_s=age,
        source="" if sample is None else sample.source,
    )
