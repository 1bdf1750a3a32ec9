"""A token's secret is exchanged: the new one is valid at once, the old one for as long as was said, and no longer.

While both are valid the old one is called `NAME.old`, so that it can be listed and ended early; two are the most.  What
counts as a live admin token is said here once, because an expired one opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.app import views
from fleetwarden.app.identity import Caller, Role, new_secret, require, secret_digest
from fleetwarden.domain.errors import Conflict, Misconfigured, NotFound
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, rfc3339
from fleetwarden.ports.stores import Store, StoredToken, Tx

__all__ = ["FROM_SETTINGS", "OVERLAP_MAX_S", "live_admins", "rotate"]

OVERLAP_MAX_S = 30 * 86_400
OLD = ".old"
FROM_SETTINGS = "admin-env"
NAME_MAX = 63


def live_admins(tokens: Sequence[StoredToken], now: Micros) -> list[StoredToken]:
    """Admin tokens that open something now."""
    return [one for one in tokens if _lives(one, now) and Role.ADMIN.value in one.roles]


def _lives(one: StoredToken, now: Micros) -> bool:
    return one.revoked_at is None and (one.expires_at is None or one.expires_at > now)


def rotate(store: Store, caller: Caller, name: str, *, overlap_s: float, for_s: float | None) -> dict[str, JsonValue]:
    """A new secret for a live token; the answer holds it, once.

    `overlap_s` (0 to 30 days): how long the old one stays valid beside it; it never outlives its own end.  `for_s`: how
    long the new one is valid; left out, as long as the old one was made for.

    Raises Forbidden, NotFound, Misconfigured, Conflict (an earlier rotation still overlaps; it is a setting's token).
    """
    require(caller, Role.ADMIN)
    if not 0 <= overlap_s <= OVERLAP_MAX_S:
        raise Misconfigured(f"an overlap of {overlap_s} s is out of range", hint="0 seconds to 30 days")
    if for_s is not None and not 1 <= for_s <= 3660 * 86_400:
        raise Misconfigured(f"a token for {for_s} s is out of range", hint="1 second to 10 years")
    if overlap_s and len(name) + len(OLD) > NAME_MAX:
        raise Misconfigured(f"{name} is too long a name for two at once", hint="--overlap 0s, or make a new token")
    if name == FROM_SETTINGS:
        raise Conflict(
            f"{name} is the token of FLEET_ADMIN_TOKEN", hint="change it there; a file is read again by itself"
        )
    secret = new_secret()

    def run(tx: Tx) -> dict[str, JsonValue]:
        now = tx.now()
        live = [one for one in tx.tokens.all() if _lives(one, now)]
        old = next((one for one in live if one.name == name), None)
        if old is None:
            raise NotFound(f"no token that is valid is named {name!r}", hint="token list names them all")
        ends = _retired(tx, old, live, now + int(overlap_s * SECOND) if overlap_s else None)
        span = (
            int(for_s * SECOND)
            if for_s is not None
            else None
            if old.expires_at is None
            else old.expires_at - old.created_at
        )
        made = tx.tokens.add(
            name=name,
            secret_digest=secret_digest(secret),
            roles=old.roles,
            person=old.person,
            expires_at=None if span is None else now + span,
            teams=old.teams,
        )
        until = f"; the old one is valid until {rfc3339(ends)}" if ends is not None else "; the old one is revoked"
        tx.journal.write(
            topic="token",
            actor=caller.person,
            subject=name,
            severity="warning",
            summary=f"{caller.person} rotated the token {name}{until}",
        )
        return {**views.token(made), "old_expires_at": rfc3339(ends)}

    return {**store.transact("rotate_token", run), "secret": secret}


def _span(old: StoredToken) -> Micros | None:
    return None if old.expires_at is None else old.expires_at - old.created_at


def _retired(tx: Tx, old: StoredToken, live: Sequence[StoredToken], until: Micros | None) -> Micros | None:
    """End the old secret now, or let it go on under another name; returns until when."""
    if until is None:
        tx.tokens.revoke(old.name)
        return None
    aside = old.name + OLD
    if any(one.name == aside for one in live):
        raise Conflict(
            f"{aside} is still valid from an earlier rotation",
            hint=f"fleetwarden token revoke {aside}, then rotate again",
        )
    return tx.tokens.retire(old.name, as_name=aside, until=until).expires_at
