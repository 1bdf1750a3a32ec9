"""Who asks: tokens, roles, and the one place where they are checked.

Only a digest of a token's secret is stored, so a copied database gives no access.  No token, no access, also on
loopback.  A role is checked per operation, never per route or screen.  `operator` and `approver` may be limited to one
group of services (`approver:web`); such a role changes nothing outside it, and reads everything.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import StrEnum

from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import Misconfigured, Refused
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.ports.stores import Store, StoredToken

__all__ = [
    "LIMITED",
    "Caller",
    "Forbidden",
    "Role",
    "Unauthenticated",
    "authenticate",
    "authenticate_digest",
    "new_secret",
    "require",
    "require_somewhere",
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


LIMITED = frozenset({Role.OPERATOR, Role.APPROVER})  # roles that can be limited to a group


class Caller(Record):
    """A person or robot with its roles and teams.  `person` is what the ledger attributes and what votes."""

    person: str
    token: str
    roles: tuple[str, ...]
    teams: tuple[str, ...] = ()

    def may(self, role: Role, group: str | None = None) -> bool:
        """Whether the caller has the role: for services of `group`, or (None) for the whole fleet."""
        for own in self.roles:
            name, _, limit = own.partition(":")
            if role in _IMPLIES[Role(name)] and (not limit or role is Role.VIEWER or limit == group):
                return True
        return False

    def may_somewhere(self, role: Role) -> bool:
        """Whether the caller has the role for the whole fleet or for some group of it."""
        return any(self.may(role, own.partition(":")[2]) for own in self.roles)


def require(caller: Caller, role: Role, group: str | None = None) -> None:
    """Raise Forbidden unless the caller has the role: for services of `group`, or (None) for the whole fleet."""
    if not caller.may(role, group):
        have = ", ".join(caller.roles) or "none"
        where = "" if group is None else f" for group {group}" if group else " for services without a group"
        raise Forbidden(f"this needs the role {role.value}{where}; the token {caller.token!r} has: {have}")


def require_somewhere(caller: Caller, role: Role) -> None:
    """Raise Forbidden unless the caller has the role for the whole fleet or for some group of it."""
    if not caller.may_somewhere(role):
        require(caller, role)


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
    return Caller(person=token.person, token=token.name, roles=token.roles, teams=token.teams)


def local_admin() -> Caller:
    """Whoever owns the data folder while no plane runs: the file system is the proof."""
    return Caller(person=LOCAL_ADMIN, token="local", roles=(Role.ADMIN.value,))  # noqa: S106  a label, not a secret


def read_roles(names: tuple[str, ...]) -> tuple[str, ...]:
    """Validate roles such as `viewer` or `approver:web`.  Raises Misconfigured naming the known ones."""
    if not names:
        raise Misconfigured("a token needs a role", hint=f"roles: {', '.join(Role)}")
    for name in names:
        role, colon, group = name.partition(":")
        if role not in {one.value for one in Role}:
            raise Misconfigured(f"unknown role {role!r}", hint=f"roles: {', '.join(Role)}")
        if colon and Role(role) not in LIMITED:
            raise Misconfigured(
                f"the role {role} is for the whole fleet and cannot be limited to {group!r}",
                hint=f"{', '.join(sorted(LIMITED))} can: approver:web",
            )
        if colon and (problem := name_problem(group)):
            raise Misconfigured(f"the role {name!r} names no group: {problem}")
    return tuple(dict.fromkeys(names))
