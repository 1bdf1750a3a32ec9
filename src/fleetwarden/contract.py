"""The scaling contract's records, schema_version "1", and what holds them together.

Thin names over `fleetwarden.domain.contract`.  Closed and immutable; `check` names every problem of a catalogue.
"""

from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.contract.authority import Catalogue, ContractProblem, check, registrations_for, writer_of
from fleetwarden.domain.contract.lifecycle import (
    SCHEMA_VERSION,
    ExecutionPhase,
    IntentOperation,
    ObservedOutcome,
    OutcomeEvidence,
    OutcomeStatus,
    RollbackEvidence,
    ScaleDecision,
    ScaleExecution,
    ScaleIntent,
    SignalSummaryRef,
    chain_problems,
    intent_id,
)
from fleetwarden.domain.contract.records import (
    Cadence,
    ControllerRegistration,
    DelegatedController,
    FailureDomain,
    OfflineRecovery,
    OutsideWindow,
    RegistrationMode,
    ResourcePool,
    RollbackPolicy,
    ScaleUnit,
    UnitMaintenance,
    UnitQuota,
    WorkloadClass,
)

__all__ = [
    "SCHEMA_VERSION",
    "Cadence",
    "Catalogue",
    "ContractProblem",
    "ControllerRegistration",
    "DelegatedController",
    "ExecutionPhase",
    "FailureDomain",
    "IntentOperation",
    "LeaseFence",
    "ObservedOutcome",
    "OfflineRecovery",
    "OutcomeEvidence",
    "OutcomeStatus",
    "OutsideWindow",
    "RegistrationMode",
    "ResourcePool",
    "RollbackEvidence",
    "RollbackPolicy",
    "ScaleDecision",
    "ScaleExecution",
    "ScaleIntent",
    "ScaleUnit",
    "SignalSummaryRef",
    "UnitMaintenance",
    "UnitQuota",
    "WorkloadClass",
    "chain_problems",
    "check",
    "intent_id",
    "registrations_for",
    "writer_of",
]
