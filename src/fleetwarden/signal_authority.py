"""The boundary for samples from elsewhere: batch queries, pages, who vouches, and what is kept as evidence.

Thin names over the layers.  A source of your own fulfils `SignalPageSource` and is read by a `SignalReader`; who its
samples are from is checked by a `SignalAuthenticator`.  Give `PagedSignals` to
`fleetwarden.wiring.set_scaling_signal_provider` to scale on such a source.
"""

from fleetwarden.adapters.signal_sources.attestation import KeyedAuthenticator, OpaqueReferenceAuthenticator
from fleetwarden.controllers.paged_signals import PagedSignals
from fleetwarden.controllers.signal_reading import SignalReader
from fleetwarden.domain.signal_authority import Attestation, Rejection, SentSample, signed_bytes
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_file import AttestationKey, SignalsDocument
from fleetwarden.domain.signal_pages import (
    PageRejection,
    ReplayGuard,
    SignalDecisionEvidence,
    SignalPage,
    SignalSummary,
    Summing,
)
from fleetwarden.domain.signal_query import SignalFault, SignalQuery
from fleetwarden.ports.attestation import SignalAuthenticator
from fleetwarden.ports.signal_pages import SignalPageSource, SourcePage

__all__ = [
    "GLOBAL_CAPS",
    "Attestation",
    "AttestationKey",
    "KeyedAuthenticator",
    "OpaqueReferenceAuthenticator",
    "PageRejection",
    "PagedSignals",
    "Rejection",
    "ReplayGuard",
    "SentSample",
    "SignalAuthenticator",
    "SignalCaps",
    "SignalDecisionEvidence",
    "SignalFault",
    "SignalPage",
    "SignalPageSource",
    "SignalQuery",
    "SignalReader",
    "SignalSummary",
    "SignalsDocument",
    "SourcePage",
    "Summing",
    "signed_bytes",
]
