"""Scaling signals: the seam for providers, and the records that pass through it.

Thin names over the layers.  Give a provider of your own to `fleetwarden.wiring.set_scaling_signal_provider`, or to
`Plane(…, signals=…)`.
"""

from fleetwarden.controllers.local_gauges import LocalGauges
from fleetwarden.domain.signals import (
    Aggregation,
    Definition,
    NoSample,
    Pair,
    Reading,
    Sample,
    SampleFault,
    SignalKind,
    SignalScope,
)
from fleetwarden.ports.signals import ScalingSignalProvider, SingleSignalProvider

__all__ = [
    "Aggregation",
    "Definition",
    "LocalGauges",
    "NoSample",
    "Pair",
    "Reading",
    "Sample",
    "SampleFault",
    "ScalingSignalProvider",
    "SignalKind",
    "SignalScope",
    "SingleSignalProvider",
]
