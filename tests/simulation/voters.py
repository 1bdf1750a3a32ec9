"""People who vote, in every twelfth history: rules that name how many of which teams, and people of several teams.

Their chances are their own, so that the other histories stay what they were.  They vote twice, on what they asked for
themselves, for teams that are not asked, after a no, and after the time is over; the auditor hears what each was told.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from fleetwarden.domain.actions import ActionApproval, Tier
from fleetwarden.domain.approvers import Approvers
from fleetwarden.domain.lifecycles import ApprovalState
from fleetwarden.domain.policy_rules import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.history import History
    from tests.simulation.plane import SimPlane

__all__ = ["Voters"]

TEAMS = {"alice": ("blue",), "bob": ("blue", "green"), "olga": ("green",)}
CALM = ("carol", "dave", "erin")  # of both teams: what nobody but they answers is answered in the calm
BOTH = ("blue", "green")
CHANCE = 0.35  # of what happens in the world, how much is somebody's vote


class Voters:
    """`busy`: whether there are any in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = Random(history.plan.seed ^ 0x707E5)
        self.busy = history.plan.voters
        self.chance = CHANCE

    def rules(self, tier: Tier, special: Mapping[str, Tier]) -> list[Rule]:
        """A rule for each service that says who has to be asked; the auditor is told."""
        rng, history = self._rng, self._history
        count = rng.choice((1, 2, 2, 3))
        teams = rng.choice((None, None, ("blue",), BOTH, BOTH) + ((),) * (not history.calm and rng.random() < 0.3))
        owners = {one.name: one.owner for one in history.plan.services}
        history.journal.event("approvers", count=count, teams=teams, owners=owners)
        approvers = Approvers(teams=teams, count=count)
        return [
            Rule(kind="*", target=name, tier=special.get(name, tier), approvers=approvers, where=f"policy.yml:{line}")
            for line, name in enumerate(owners, 5)
        ]

    def teams(self, person: str) -> tuple[str, ...]:
        """Of whoever answers."""
        return TEAMS.get(person, BOTH) if self.busy else ()

    def act(self) -> bool:
        """Perhaps somebody answers something; returns whether."""
        rng, history = self._rng, self._history
        if not self.busy or rng.random() >= self.chance or not history.planes:
            return False
        plane, by = rng.choice(history.planes), rng.choice(list(TEAMS))
        no = rng.random() < 0.12
        history.people.spawn(plane, "vote", lambda: self._vote(plane, by, no=no))
        return True

    def _vote(self, plane: SimPlane, by: str, *, no: bool) -> None:
        """On what is open; now and then on what has ended."""
        rng, history = self._rng, self._history
        found = history.engine.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING, ApprovalState.GRANTED))
        if found:
            approval = rng.choice(list(found))
            if no:
                history.people.say_no(plane, approval, by)
            else:
                history.people.grant(plane, approval, by)

    def answer(self, plane: SimPlane, approval: ActionApproval) -> None:
        """In the calm: as many as are needed say yes."""
        people = self._history.people
        for by in CALM if self.busy else CALM[:1]:
            people.attempt(partial(people.grant, plane, approval, by))
