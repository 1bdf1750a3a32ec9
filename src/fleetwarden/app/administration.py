"""What administrators and operators change beside the fleet itself: unknown outcomes, overrides, tokens; and freezes.

Works on a store alone, so that a stopped plane can still be frozen, settled and given a token.  Every change is one
transaction with a line in the journal that says who and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetwarden.app import views
from fleetwarden.app.freezing import Freezing
from fleetwarden.app.identity import Caller, Role, new_secret, read_roles, require, require_somewhere, secret_digest
from fleetwarden.app.rotation import live_admins, rotate
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.domain import policy as policies
from fleetwarden.domain.approvers import read_teams
from fleetwarden.domain.errors import Conflict, Misconfigured, Problem
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import SECOND, JsonValue, parse_id
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Administration"]

TOKEN_FOR_MAX_S = 3660 * 86_400


class Administration(Freezing):
    """Changes to the plane's own state, freezes included."""

    def __init__(
        self,
        store: Store,
        recovery: Recovery,
        freeze_file: Callable[[], str],
        fleet: Callable[[], Fleet] | None = None,
    ) -> None:
        super().__init__(store, freeze_file, fleet)
        self._recovery = recovery

    def unknown(self, caller: Caller) -> dict[str, JsonValue]:
        """Actions whose outcome is unknown."""
        require(caller, Role.VIEWER)
        rows = self._store.read(lambda tx: tx.outbox.in_state(OutboxState.RECOVERY_PENDING))
        return {"items": [views.record(one) for one in reversed(rows)], "next": None}

    def settle(self, caller: Caller, action: str, *, outcome: str, reason: str) -> views.Item:
        """A person's word on an unknown outcome.  Raises NotFound, Conflict, Refused (before the horizon)."""
        require_somewhere(caller, Role.OPERATOR)
        if outcome not in ("succeeded", "failed"):
            raise Misconfigured(f"an outcome is settled as succeeded or failed, not as {outcome!r}")
        if not reason.strip():
            raise Misconfigured("a settlement needs a reason", hint="say what you looked at and saw")
        seq = parse_id("X", action)
        require(caller, Role.OPERATOR, self._store.read(lambda tx: tx.outbox.get(seq)).request.group)
        record = self._recovery.settle_by_person(seq, succeeded=outcome == "succeeded", reason=reason, by=caller.person)
        return views.record(record)

    def put_override(self, caller: Caller, name: str, rule: Mapping[str, JsonValue], *, active: bool) -> views.Item:
        """Write a policy rule that holds from the next decision on.  Raises Misconfigured if it is no valid rule."""
        require(caller, Role.ADMIN)
        try:
            if policies.read_override(name, dict(rule), active=True) is None:
                raise Misconfigured(
                    "active stands inside the rule", [Problem(name, 0, "active: give it beside the rule")]
                )
        except Misconfigured as error:
            raise Misconfigured(
                f"that is no valid rule for the override {name}; nothing was changed",
                error.problems,
                hint="write it as a rule of the policy file",
            ) from error

        def run(tx: Tx) -> views.Item:
            tx.lock_admission(exclusive=True)
            stored = tx.overrides.put(name, rule, active=active, by=caller.person)
            tx.journal.write(
                topic="override",
                actor=caller.person,
                subject=name,
                severity="warning",
                summary=f"{caller.person} wrote the policy override {name} ({'active' if active else 'inactive'})",
                detail={"rule": dict(rule)},
            )
            return views.override(stored)

        return self._store.transact("put_override", run)

    def delete_override(self, caller: Caller, name: str) -> None:
        """Raises NotFound."""
        require(caller, Role.ADMIN)

        def run(tx: Tx) -> None:
            tx.lock_admission(exclusive=True)
            tx.overrides.delete(name)
            tx.journal.write(
                topic="override",
                actor=caller.person,
                subject=name,
                severity="warning",
                summary=f"{caller.person} removed the policy override {name}",
            )

        self._store.transact("delete_override", run)

    def overrides(self, caller: Caller) -> list[views.Item]:
        require(caller, Role.VIEWER)
        return [views.override(one) for one in self._store.read(lambda tx: tx.overrides.all())]

    def create_token(
        self,
        caller: Caller,
        *,
        name: str,
        roles: tuple[str, ...],
        person: str,
        for_s: float | None,
        teams: tuple[str, ...] = (),
    ) -> dict[str, JsonValue]:
        """A new token; the answer holds its secret, which is shown once and never stored."""
        require(caller, Role.ADMIN)
        wanted, members = read_roles(roles), read_teams(teams)
        if not name or len(name) > 63:
            raise Misconfigured("a token's name has 1 to 63 characters")
        if for_s is not None and not 1 <= for_s <= TOKEN_FOR_MAX_S:
            raise Misconfigured(f"a token for {for_s} s is out of range", hint="1 second to 10 years")
        secret = new_secret()

        def run(tx: Tx) -> views.Item:
            until = None if for_s is None else tx.now() + int(for_s * SECOND)
            made = tx.tokens.add(
                name=name,
                secret_digest=secret_digest(secret),
                roles=wanted,
                person=person or name,
                expires_at=until,
                teams=members,
            )
            tx.journal.write(
                topic="token",
                actor=caller.person,
                subject=name,
                severity="warning",
                summary=f"{caller.person} made the token {name} ({', '.join(wanted)}) for {person or name}"
                + (f", team {', '.join(members)}" if members else ""),
            )
            return views.token(made)

        return {**self._store.transact("create_token", run), "secret": secret}

    def rotate_token(self, caller: Caller, name: str, *, overlap_s: float, for_s: float | None) -> views.Item:
        """A new secret for a token, see `rotation.rotate`."""
        return rotate(self._store, caller, name, overlap_s=overlap_s, for_s=for_s)

    def revoke_token(self, caller: Caller, name: str) -> views.Item:
        """Ends a token at once.  Raises NotFound; Conflict for the last live admin token."""
        require(caller, Role.ADMIN)

        def run(tx: Tx) -> views.Item:
            admins = live_admins(tx.tokens.all(), tx.now())
            if [one.name for one in admins] == [name]:
                raise Conflict(f"{name} is the last admin token", hint="create another admin token first")
            ended = tx.tokens.revoke(name)
            tx.journal.write(
                topic="token",
                actor=caller.person,
                subject=name,
                severity="warning",
                summary=f"{caller.person} revoked the token {name}",
            )
            return views.token(ended)

        return self._store.transact("revoke_token", run)

    def tokens(self, caller: Caller) -> dict[str, JsonValue]:
        require(caller, Role.ADMIN)
        rows = self._store.read(lambda tx: tx.tokens.all())
        return {"items": [views.token(one) for one in reversed(rows)], "next": None}
