"""The promises about votes, rejections and expiry, broken one by one, as `planted` does it for the protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fleetwarden.controllers import approvals, gate
from fleetwarden.controllers.approvals import ApprovalDesk
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionApproval, LeaseFence, Needed, Tier, Vote
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx
from fleetwarden.store import approvals as stored
from fleetwarden.store.approvals import StoredApprovals
from tests.simulation.planted import Planted, Through, ignore

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["VOTES"]


class OnVotes(Planted):
    """In every history rules name who has to say yes, and people answer a lot."""

    tilt: ClassVar[Mapping[str, Any]] = {
        "voters": True,
        "tier": Tier.APPROVAL_REQUIRED,
        "people": 0.05,
        "people_share": 0.5,
        "rough_steps": 375,
    }


class OneIsEnough(OnVotes):
    name = "the first yes grants what needs several (desk and store)"

    def into(self, history: History) -> None:
        vote = StoredApprovals.vote

        def last(self: StoredApprovals, seq: int, one: Vote) -> ActionApproval:
            voted = vote(self, seq, one)
            return msgspec.structs.replace(voted, needed=msgspec.structs.replace(voted.needed, count=1))

        self.replace(StoredApprovals, "vote", last)
        self.replace(StoredApprovals, "_refuse_without_quorum", ignore)


class AskedOfAnybody(OnVotes):
    name = "an approval is filed without what its rule says about approvers"

    def into(self, history: History) -> None:
        self.replace(gate, "needed_for", lambda *_: Needed())


class VotesTwice(OnVotes):
    name = "one person's second yes counts as another's (check and index)"
    spoils_engine = True

    def into(self, history: History) -> None:
        history.engine._connection.execute("DROP INDEX votes_of_person")
        self.replace(ApprovalDesk, "_answerable", lambda desk, tx, seq, by: tx.approvals.get(seq))


class OwnYesCounts(OnVotes):
    name = "whoever asked for it may approve it"

    def into(self, history: History) -> None:

        def lenient(tx: Tx, configuration: Configuration) -> Configuration:
            asked = as_asked(tx, configuration)
            options = msgspec.structs.replace(asked.policy.options, allow_self_approval=True)
            return msgspec.structs.replace(asked, policy=dataclasses.replace(asked.policy, options=options))

        self.replace(approvals, "as_asked", lenient)


class AnyTeamCounts(OnVotes):
    name = "a yes counts whatever team it is from"

    def into(self, history: History) -> None:
        self.replace(stored, "vote_problem", ignore)


class AnsweredTooLate(OnVotes):
    name = "what has expired can be answered until somebody notices (desk and store)"
    tilt: ClassVar[Mapping[str, Any]] = {**OnVotes.tilt, "approval_s": 40}

    def into(self, history: History) -> None:
        self.replace(ApprovalDesk, "_answerable", lambda desk, tx, seq, by: tx.approvals.get(seq))
        self.replace(StoredApprovals, "_refuse_if_expired", ignore)


class NoIsOneOfMany(OnVotes):
    name = "a no is a vote among others, and the approval waits on"

    def tx(self, name: str, tx: Tx) -> Tx:
        return Through(tx, approvals=Through(tx.approvals, move=ignore)) if name == "reject" else tx


class ExpiresEarly(OnVotes):
    name = "what nobody has answered expires before its time"

    def into(self, history: History) -> None:
        def soon(desk: ApprovalDesk, fence: LeaseFence | None = None) -> int:
            waiting = desk._store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING))
            return sum(desk._expire(one.seq, fence) for one in waiting)

        self.replace(ApprovalDesk, "expire_due", soon)

    def tx(self, name: str, tx: Tx) -> Tx:
        return Through(tx, now=lambda: tx.now() + 60 * SECOND) if name == "expire" else tx


VOTES: Sequence[Callable[[], Planted]] = (
    OneIsEnough,
    AskedOfAnybody,
    VotesTwice,
    OwnYesCounts,
    AnyTeamCounts,
    AnsweredTooLate,
    NoIsOneOfMany,
    ExpiresEarly,
)
