"""Who asks: tokens, roles, and the one place where they are checked.

Only a digest of a token's secret is stored, so a copied database gives no access.  No token, no access, also on
loopback.  A role is checked per operation, never per route or screen.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured, Refused
from fleetwarden.ports.stores import Store, StoredToken

__all__ = [
    "Caller",
    "Forbidden",
    "Role",
    "Unauthenticated",
    "authenticate",
    "authenticate_digest",
    "new_secret",
    "require",
    "secret_digest",
]

SECRET_PREFIX = "fw_"  # noqa: S105  the visible head of every token, so that a leaked one is recognised
LOCAL_ADMIN = "local admin"


class Role(StrEnum):
    VIEWER = "viewer"
    INGEST = "ingest"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


_IMPLIES = {
    Role.ADMIN: frozenset(Role),
    Role.OPERATOR: frozenset({Role.OPERATOR, Role.VIEWER}),
    Role.APPROVER: frozenset({Role.APPROVER, Role.VIEWER}),
    Role.INGEST: frozenset({Role.INGEST}),
    Role.VIEWER: frozenset({Role.VIEWER}),
}


class Unauthenticated(Refused):
    code = "unauthenticated"


class Forbidden(Refused):
    code = "forbidden"


class Caller(Record):
    """A person or robot with its roles.  `person` is what the ledger attributes."""

    person: str
    token: str
    roles: tuple[str, ...]

    def may(self, role: Role) -> bool:
        return any(role in _IMPLIES[Role(own)] for own in self.roles)


def require(caller: Caller, role: Role) -> None:
    """Raise Forbidden unless the caller has the role."""
    if not caller.may(role):
        have = ", ".join(caller.roles) or "none"
        raise Forbidden(f"this needs the role {role.value}; the token {caller.token!r} has: {have}")


def new_secret() -> str:
    """A fresh token secret: 256 bits."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def secret_digest(secret: str) -> str:
    """What is stored of a secret.  Secrets are random and long, so one plain digest is enough."""
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def authenticate(store: Store, secret: str) -> Caller:
    """The caller behind a secret.  Raises Unauthenticated; StoreUnavailable passes through."""
    return authenticate_digest(store, secret_digest(secret) if secret else "")


def authenticate_digest(store: Store, wanted: str) -> Caller:
    """The caller behind a secret's digest, for who must not keep the secret.  Raises as `authenticate` does."""
    found = store.read(lambda tx: tx.tokens.by_digest(wanted)) if wanted else None
    if found is None or not hmac.compare_digest(found.secret_digest, wanted):
        raise Unauthenticated(
            "no valid token", hint="send Authorization: Bearer fw_…; the admin token is in the data folder"
        )
    return caller_of(found)


def caller_of(token: StoredToken) -> Caller:
    return Caller(person=token.person, token=token.name, roles=token.roles)


def local_admin() -> Caller:
    """Whoever owns the data folder while no plane runs: the file system is the proof."""
    return Caller(person=LOCAL_ADMIN, token="local", roles=(Role.ADMIN.value,))  # noqa: S106  a label, not a secret


def read_roles(names: tuple[str, ...]) -> tuple[str, ...]:
    """Validate role names.  Raises Misconfigured naming the known ones."""
    known = {role.value for role in Role}
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise Misconfigured(
            f"unknown role {wrong[0]!r}" if wrong else "a token needs a role", hint=f"roles: {', '.join(Role)}"
        )
    return tuple(dict.fromkeys(names))
