"""Scaling signals: what one sample says, and when it may be believed.

A sample answers for exactly one (service, signal) pair.  One that is missing, old, skewed, replayed or about something
else is an error with a reason; it is never zero, and nothing here ever turns an error into a number.
"""

from __future__ import annotations

from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros

__all__ = [
    "AGE_MAX_S",
    "CONFIDENT",
    "SKEW_MAX_S",
    "Aggregation",
    "Definition",
    "NoSample",
    "Pair",
    "Reading",
    "Sample",
    "SampleFault",
    "SignalKind",
    "SignalScope",
]

AGE_MAX_S = 120.0  # a deployment may only lower it
CONFIDENT = 0.5  # a sample of which its source is less sure than this is no reason to shrink
SKEW_MAX_S = 30.0  # how far ahead of the store's clock a sample may be dated


class SignalKind(StrEnum):
    """What is measured: a closed set."""

    CPU = "cpu"
    RAM = "ram"
    GPU = "gpu"
    KV_CACHE = "kv_cache"
    DISK = "disk"
    NETWORK = "network"
    TOKEN = "token"  # noqa: S105 -- a kind of signal, no credential
    REQUEST = "request"
    LATENCY = "latency"
    QUEUE = "queue"
    SHARD = "shard"


class Aggregation(StrEnum):
    """Whether a value stands for the service as a whole, or for one replica on average."""

    FLEET_TOTAL = "fleet_total"
    PER_REPLICA = "per_replica"


class SignalScope(StrEnum):
    """What a signal is about."""

    SERVICE = "service"
    UNIT = "unit"
    FLEET = "fleet"


class Pair(Record):
    """Which signal of which service is asked for."""

    service: str
    signal: str


class Sample(Record):
    """One value.  `observed_at`: when the thing itself was measured (the scrape, not the query), store's time scale."""

    service: str
    signal: str
    value: float
    source: str
    aggregation: Aggregation
    unit: str
    scope: SignalScope
    observed_at: Micros
    version: str = ""  # of the instances that it comes from, where the source knows
    series: int = 0  # how many series it was made of; 0: nobody counted them
    confidence: float = 1.0  # how sure its source is of it, 0 to 1


class SampleFault(StrEnum):
    """Why there is no usable sample.  The order is that of severity in summaries, not of anything else."""

    MISSING = "missing"  # the source answered and has nothing
    STALE = "stale"
    FUTURE = "future"
    REPLAYED = "replayed"  # older than the last one used
    NOT_FINITE = "not_finite"
    NEGATIVE = "negative"
    TOO_LARGE = "too_large"
    MISMATCH = "mismatch"  # another service, aggregation, unit or scope than is declared
    WARNINGS = "warnings"  # an answer with warnings and no usable data, or data that a warning taints
    TOO_MANY_SERIES = "too_many_series"
    TOO_FEW_SERIES = "too_few_series"  # fewer than ready replicas: never a reason to scale in
    OTHER_VERSION = "other_version"
    UNDEFINED = "undefined"  # nobody defines this signal for this service
    SOURCE_FAILED = "source_failed"  # the source could not be asked, or its answer not be read
    TIMED_OUT = "timed_out"
    NOT_ASKED = "not_asked"  # rotated out of this batch: says nothing at all
    UNTRUSTED = "untrusted"  # attestation failed


class NoSample(Record):
    """Why a pair has no sample now, in a code and a sentence; with the age of what was rejected, if it had one."""

    service: str
    signal: str
    fault: SampleFault
    reason: str
    age_s: float | None = None
    source: str = ""


Reading = Sample | NoSample


class Definition(Record):
    """What a symbol means: immutable, given by the deployment, never by a caller.

    `services` names exactly which services (or, scope unit, units; scope fleet, the plane's own) it answers for; () is
    every service that asks where `by` tells them apart.  `query` is the source's own language and never leaves the
    provider that reads it.  `max_age_s`: at most 120.  `series_vary`: the number of series behind it changes by
    nature, so that fewer of them are no sign of a loss.
    """

    name: str
    kind: SignalKind
    unit: str
    scope: SignalScope
    aggregation: Aggregation
    source: str = ""  # a source of signals.yml, or "pushed"
    query: str = ""
    by: str = ""  # the label that carries the service's (or unit's) name
    age_of: str = ""  # a bare selector whose scrape times date the query's answer
    max_age_s: float = AGE_MAX_S
    services: tuple[str, ...] = ()
    series_vary: bool = False
    file: str = ""
    line: int = 0
