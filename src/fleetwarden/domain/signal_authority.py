"""The boundary for samples that somebody sends: who says it, about what, when, and whether it may be believed.

Every sample is judged before anything of it is kept, and each rejection has a code of its own.  Missing data is never
zero, and nothing here turns a rejection into a number.  What a source signs is the canonical form of the sample without
its attestation, so that no field can be changed on the way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from enum import StrEnum
from functools import lru_cache

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, canonical_json, name_problem, rfc3339, seconds
from fleetwarden.domain.signal_rules import VALUE_MAX
from fleetwarden.domain.signals import AGE_MAX_S, SKEW_MAX_S, Aggregation, SignalKind

__all__ = [
    "EVIDENCE_MAX",
    "Attestation",
    "Rejection",
    "SentSample",
    "judge",
    "signed_bytes",
    "source_label",
]

EVIDENCE_MAX = 8
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_CREDENTIAL = re.compile(
    r"(?i)(password|passwd|secret|token|api[_-]?key|authorization|bearer)\s*[=:]|://[^/\s:@]*:[^/\s@]*@"
)


class Rejection(StrEnum):
    """Why a sample was not taken."""

    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"
    NEGATIVE = "negative"
    TOO_LARGE = "too_large"
    STALE = "stale"
    FUTURE = "future"
    MISSING_TIMESTAMP = "missing_timestamp"
    SCOPE = "scope"  # about a service that is not there, or about something else than was asked for
    SOURCE = "source"  # of a source that was not asked
    CREDENTIALS = "credentials"
    UNATTESTED = "unattested"  # there are keys, and the sample has no signature
    ATTESTATION = "attestation"  # a signature that is not right
    REPLAYED = "replayed"
    GUARD_FULL = "guard_full"
    UNDEFINED = "undefined"  # no signal is declared that it could answer for


class Attestation(Record):
    """Who vouches: the id of a key, and what it signed (hex of an HMAC-SHA-256, or base64 of an Ed25519 signature)."""

    key_id: str
    signature: str


class SentSample(Record):
    """One sample as it is sent.

    `source`: who measured; `scale_unit`: "" is the service's own; `unit`: of the value; `sampled_at`: when it was
    measured, `event_at`: when what it tells of happened, both in microseconds; `freshness_s`: how long it may be used
    (at most 120); `confidence`: 0 to 1; `evidence`: opaque references; `sequence`: grows with every sample of a source.
    """

    source: str
    service: str
    kind: SignalKind
    value: float
    aggregation: Aggregation
    unit: str
    sampled_at: Micros | None = None
    event_at: Micros | None = None
    tenant: str = ""
    scale_unit: str = ""
    freshness_s: float = AGE_MAX_S
    confidence: float = 1.0
    evidence: tuple[str, ...] = ()
    sequence: int | None = None
    attestation: Attestation | None = None


def signed_bytes(sample: SentSample) -> bytes:
    """What a source signs: every field but the attestation, in canonical JSON, times as RFC 3339 in UTC."""
    plain: dict[str, JsonValue] = msgspec.to_builtins(sample)
    del plain["attestation"]
    for name in ("sampled_at", "event_at"):
        plain[name] = rfc3339(plain[name])
    for name in ("value", "confidence", "freshness_s"):
        plain[name] = float(plain[name])  # one form, whether it was written 12 or 12.0
    return canonical_json(plain)


def judge(sample: SentSample, now: Micros, services: Container[str]) -> tuple[Rejection, str] | None:
    """Why a sample cannot be taken by what it says, or None.  Attestation and sequence are asked elsewhere."""
    if (why := _malformed(sample)) is not None:
        return Rejection.MALFORMED, why
    if not math.isfinite(sample.value):
        return Rejection.NOT_FINITE, "value is no finite number"
    if sample.value < 0:
        return Rejection.NEGATIVE, f"value is {sample.value:g}, below 0"
    if sample.value > VALUE_MAX:
        return Rejection.TOO_LARGE, f"value is above {VALUE_MAX:g}"
    if not _opaque(sample.source) or (sample.evidence and not all(map(_opaque, sample.evidence))):
        return Rejection.CREDENTIALS, "source or evidence looks like a credential: give opaque references"
    if sample.sampled_at is None:
        return Rejection.MISSING_TIMESTAMP, "sampled_at is missing: a sample without a time is no evidence"
    if sample.service not in services:
        return Rejection.SCOPE, f"no service {sample.service!r} is declared"
    age = now - sample.sampled_at
    most = sample.freshness_s  # at most AGE_MAX_S, or it is malformed
    if age > int(most * SECOND):
        return Rejection.STALE, f"it is {seconds(age):.1f} s old, {most:g} s are allowed"
    ahead = max(-age, (sample.event_at or sample.sampled_at) - now)
    if ahead > int(SKEW_MAX_S * SECOND):
        return Rejection.FUTURE, f"it is dated {seconds(ahead):.1f} s ahead, {SKEW_MAX_S:g} s are allowed"
    return None


@lru_cache(maxsize=4096)  # few sources send many samples
def _is_source(name: str) -> bool:
    return _SOURCE.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def _opaque(reference: str) -> bool:
    return _CREDENTIAL.search(reference) is None


def source_label(source: str) -> str:
    """The source as others may read it: free text, and what looks like a credential, is nobody's name."""
    fit = _is_source(source) and _opaque(source)
    return source if fit else "malformed"


def _malformed(sample: SentSample) -> str | None:
    if not _is_source(sample.source):
        return "source is no name: letters, digits, '_', '.', ':', '/', '-', at most 128"
    if problem := name_problem(sample.service):
        return f"service: {problem}"
    if sample.scale_unit and (problem := name_problem(sample.scale_unit)):
        return f"scale_unit: {problem}"
    if sample.tenant and (problem := name_problem(sample.tenant)):
        return f"tenant: {problem}"
    if not 1 <= len(sample.unit) <= 64:
        return "unit is text of 1 to 64 characters"
    if not 0 < sample.freshness_s <= AGE_MAX_S:
        return f"freshness_s is above 0 and at most {AGE_MAX_S:g}"
    if not 0 <= sample.confidence <= 1:
        return "confidence is from 0 to 1"
    if sample.evidence and (
        len(sample.evidence) > EVIDENCE_MAX or not all(1 <= len(one) <= 256 for one in sample.evidence)
    ):
        return f"evidence is at most {EVIDENCE_MAX} references of 1 to 256 characters"
    if (sample.event_at or 0) < 0:
        return "event_at is before 1970"  # and what is signed has no form for a time before the year 1
    if sample.sequence is not None and not 0 <= sample.sequence < 2**63:
        return "sequence is a whole number of at least 0"
    return None
