"""The auditor sees: each fence that is taken away is missed within a few histories, and by nothing else's fault.

Which history it was is printed (`-rP` shows it); the bound leaves room for histories to change.
"""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import ALL
from tests.simulation.history import run
from tests.simulation.plan import draw
from tests.simulation.telling import told

HISTORIES_MAX = 400
# Where the search begins: the history that caught it once, so that hundreds need not be run again each time.  When
# histories change, another one catches it, a little later; nothing but time rests on these numbers.
BEGIN_AT = {
    "PolicyBesideCommit1": 31,
    "NoFreezeAtCommit1": 97,
    "FilesBesideTransactions": 270,
    "NoLeaseAtCommit1": 169,
    "NoLeaseAtCommit2": 119,
    "NoPauses": 149,
    "RejectedRuns": 34,
    "NotNeededAnyMore": 183,
    "NoStartWindow": 25,
    "NoFreezeFileBeforeTheCall": 31,
    "OwnOrphansIgnored": 5,
    "OthersOrphansIgnored": 8,
    "LiveThreadsMarked": 34,
    "OpenAfterSettlement": 22,
    "StaleFirstRun": 9,
    "OnlyTheFilesCount": 31,
    "PutUnderAnOldLease": 9,
    "PutOverAnyRevision": 3,
    "PutOverWhatRuns": 12,
    "StaleIntentAtCommit1": 9,
    "IntentBesideCommit1": 9,
    "NoCooldownAtCommit1": 41,
    "NoBoundsAtCommit1": 9,
    "PausedIsScaled": 9,
    "LateYes": 4,
    "WithdrawnIsCarriedOut": 25,
    "RefusedStaysAccepted": 1,
    "EndsWithoutItsApproval": 40,
    "WithdrawnWithoutItsIntent": 11,
    "BadSamplesCount": 4,
    "MissingIsZero": 4,
    "ReplaysCount": 31,
    "DeclaredCountPutBack": 3,
    "WindowBeginsAnew": 3,
    "WellBeforeItsTime": 3,
    "UnseenIsWell": 47,
    "BackToAnotherCount": 426,
    "StormIsAskedOnce": 16,
    "StormNeverOpens": 15,
    "UnknownIsHandedOut": 12,
    "RolledBackIsDeployed": 28,
    "BackToWhatRanBefore": 8,
    "NobodyGoesBack": 5,
    "SetAsideIsStarted": 4,
    "AnybodySeals": 15,
}


@pytest.mark.req(
    "PRO-1", "PRO-2", "PRO-3", "PRO-5", "PRO-6", "PRO-7", "PRO-8", "PRO-9", "PRO-10", "PRO-12", "PRO-13", "PRO-14",
    "PRO-15", "AUT-4", "AUT-6", "AUT-11", "AUT-13", "AUT-18", "DWH-1", "DWH-2", "EVT-1", "EVT-2",
    "EVT-5", "PLB-1", "PLB-2", "PLB-3", "PLB-4", "PLB-5",
)  # fmt: skip
@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.__name__)
def test_the_missing_fence_is_caught(fault) -> None:
    begin = BEGIN_AT.get(fault.__name__, 0)
    for seed in range(begin, begin + HISTORIES_MAX):
        verdict = run(seed, fault())
        if verdict.findings:
            break
    else:
        pytest.fail(f"{HISTORIES_MAX} histories did not show that {fault.name}")
    print(f"{fault.name}: caught by seed {seed}, looked for from {begin} on: {verdict.findings[0]}")
    same_weather = run(seed, plan=fault().plan(draw(seed)))
    assert not same_weather.findings, told(same_weather)


def test_the_search_begins_for_faults_that_there_are() -> None:
    assert set(BEGIN_AT) <= {fault.__name__ for fault in ALL}
