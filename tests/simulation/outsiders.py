"""Other systems that ask, act by themselves, and say how it ended; in every sixth history.

Their chances are their own, so that the other histories stay what they were.  They claim twice, act only on a yes, die
between claim and result, say the same twice or something else the second time, say it too late or never, and some did
it before they asked.  What each was told, and what each really did, are events for the auditor.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fleetwarden.app.identity import Caller
from fleetwarden.app.outside import OutsideActions
from fleetwarden.app.rollout_gates import Hook, RolloutGates
from fleetwarden.controllers.loop import Subscription
from fleetwarden.domain.identifiers import parse_id

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.plane import SimPlane

__all__ = ["KINDS", "RUN_S", "START_S", "STRANGE", "OutsideOf", "Outsiders"]

CHANCE = 0.55  # of what happens in the world, how much is their doing
START_S, RUN_S, PASS_S, REJECTED_S = 30.0, 45.0, 60.0, 30.0
KINDS = ("merge_branch", "rotate_key", "advance_rollout")
STRANGE = "pipeline"  # a target that is no service of ours
PEOPLE = ("ci", "robot", "joe")
ACTS = (*("ask",) * 4, *("claim",) * 7, *("tell",) * 4, "tell again", "told afterwards", *("gate",) * 2)


class OutsideOf:
    """What other systems talk to on one plane, put together as the product does it."""

    def __init__(self, plane: SimPlane) -> None:
        settings = SimpleNamespace(
            fleet_outside_start_s=START_S,
            fleet_outside_run_s=RUN_S,
            fleet_gate_pass_s=PASS_S,
            fleet_rejected_hold_s=REJECTED_S,
        )
        parts: Any = SimpleNamespace(
            settings=settings,
            store=plane.store,
            configuration=plane.history.files,
            gate=plane.gate,
            ids=plane.ids,
        )
        self.actions = OutsideActions(parts)
        self.gates = RolloutGates(parts, self.actions.desk)

    def subscriptions(self) -> list[Subscription]:
        return list(self.actions.subscriptions())


class Outsiders:
    """`busy`: whether there are any in this history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = Random(history.plan.seed ^ 0x0075)
        self.busy = history.plan.outsiders
        self.chance = CHANCE
        self.acts: tuple[str, ...] = ACTS
        self._asked: list[str] = []
        self._keys: list[tuple[str, str, str, str]] = []
        self._running: dict[str, tuple[str, bool]] = {}  # what was claimed: by whom, and how it ended
        self._done: list[tuple[str, str, bool]] = []

    def act(self) -> bool:
        """Perhaps one of them does something; returns whether."""
        rng, history = self._rng, self._history
        if not self.busy or rng.random() >= self.chance or not history.planes:
            return False
        what = rng.choice(self.acts)
        plane, by = rng.choice(history.planes), rng.choice(PEOPLE)
        act = getattr(self, f"_{what.replace(' ', '_')}")
        history.people.spawn(plane, what.replace(" ", "-"), lambda: act(plane, by))
        return True

    # ------------------------------------------------------------------------------------------- what they do
    def _ask(self, plane: SimPlane, by: str) -> None:
        rng = self._rng
        if self._keys and rng.random() < 0.2:
            by, kind, target, key = rng.choice(self._keys)
        else:
            target = rng.choice((STRANGE, rng.choice(self._history.plan.services).name))
            kind, key = rng.choice(KINDS[:2]), plane.ids.new()
            self._keys.append((by, kind, target, key))
        told = plane.outside.actions.propose(_caller(by), kind=kind, target=target, params={}, reason="due", key=key)
        self._history.journal.line(f"{by} asked for {kind} {target}: {told['state']}, {told['reason']}")
        if (action := told["action_id"]) is not None and action not in self._asked:
            self._asked.append(str(action))

    def _claim(self, plane: SimPlane, by: str) -> None:
        """Claim, and act on a yes; who hears nothing does nothing."""
        rng, history = self._rng, self._history
        if not self._asked:
            return
        action = rng.choice(self._asked[-4:])
        told = plane.outside.actions.claim(_caller(by), action)
        history.journal.event("outside", what="claimed", decision=parse_id("D", action), by=by, ok=True)
        if rng.random() < 0.15:
            return  # it dies before it does anything, and nobody hears of it
        self._act(action, by, str(told["execution_id"]), claimed=True)

    def _act(self, action: str, by: str, record: str, *, claimed: bool) -> None:
        history, ok = self._history, self._rng.random() < 0.8
        what = "acted" if claimed else "acted unasked"
        history.journal.event("outside", what=what, decision=parse_id("D", action), by=by, ok=ok)
        if ok and record:
            key = history.engine.read(lambda tx: tx.outbox.get(parse_id("X", record)).key)
            history.landed.add(key)
        self._running[action] = (by, ok)

    def _tell(self, plane: SimPlane, by: str) -> None:
        if self._running:
            action = self._rng.choice(list(self._running))
            by, ok = self._running[action]
            self._say(plane, action, by, ok)
            self._running.pop(action, None)
            self._done.append((action, by, ok))

    def _tell_again(self, plane: SimPlane, by: str) -> None:
        """The same once more, or the opposite; by the same one or by another."""
        rng = self._rng
        if self._done:
            action, first, ok = rng.choice(self._done)
            self._say(plane, action, rng.choice((first, by)), ok == (rng.random() < 0.5))

    def _told_afterwards(self, plane: SimPlane, by: str) -> None:
        if self._asked:
            action = self._rng.choice(self._asked[-4:])
            self._act(action, by, "", claimed=False)
            self._running.pop(action, None)
            self._say(plane, action, by, True)

    def _say(self, plane: SimPlane, action: str, by: str, ok: bool) -> None:
        history, decision = self._history, parse_id("D", action)
        history.journal.event("outside", what="told", decision=decision, by=by, ok=ok)
        plane.outside.actions.report(_caller(by), action, ok=ok)
        history.journal.event("outside", what="heard", decision=decision, by=by, ok=ok)

    def _gate(self, plane: SimPlane, by: str) -> None:
        """A rollout asks again and again, and goes on as soon as it may."""
        rng = self._rng
        hook = Hook(name=rng.choice(("shop", "till")), checksum=str(rng.randint(1, 2)), metadata={"kind": KINDS[2]})
        told = plane.outside.gates.ask(_caller(by), hook)
        self._history.journal.line(f"the gate of {hook.name}: {told['go']}, {told['reason']}")
        if told["go"]:
            decision = parse_id("D", str(told["decision_id"]))
            self._history.journal.event("outside", what="opened", decision=decision, by=by, ok=True)


def _caller(person: str) -> Caller:
    return Caller(person=person, token=person, roles=("operator",))
