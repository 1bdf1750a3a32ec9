"""What lists, freezes, recovery and tokens are asked of: a running plane, or the store itself while none runs.

Both answer with the same JSON, so a command does not know which one it talks to.  The store is opened only by whoever
may read the data folder, which is the proof that replaces a token; it is never opened while a plane holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from fleetwarden.cli.client import PlaneClient, quoted
from fleetwarden.cli.times import instant_of

__all__ = ["Authority", "LocalAuthority", "RemoteAuthority", "opened"]

Item = dict[str, Any]


class Authority(Protocol):
    """One call per question.  All raise the domain's errors."""

    def now(self) -> datetime | None:
        """The authority's own time at its last answer, or None."""

    def page(self, topic: str, filters: Mapping[str, object]) -> Item:
        """`{items, next}`; filters: target, kind, state, since (RFC 3339), limit, cursor."""

    def show(self, topic: str, name: str) -> Item: ...

    def ledger_page(self, cursor: str | None) -> Item:
        """`{items, next}` of the sealed ledger's export; no cursor: from the beginning."""

    def ledger_text(self, digest: str) -> Item:
        """A kept text of the configuration."""

    def freeze_status(self) -> Item: ...

    def freeze(self, *, reason: str, for_s: float | None, scope: str, value: str) -> Item:
        """`scope` is all, group, kind or service; `value` names which ("" for all)."""

    def thaw(self, *, reason: str, scope: str, value: str) -> Item:
        """`scope` "": every freeze that a command made; `all`: that of the whole fleet."""

    def unknown(self) -> Item:
        """Actions whose outcome is unknown, as a list."""

    def settle(self, action: str, *, outcome: str, reason: str) -> Item: ...

    def create_token(
        self, *, name: str, roles: tuple[str, ...], person: str, for_s: float | None, teams: tuple[str, ...]
    ) -> Item: ...

    def rotate_token(self, name: str, *, overlap_s: float, for_s: float | None) -> Item: ...

    def revoke_token(self, name: str) -> Item: ...

    def tokens(self) -> Item: ...


class RemoteAuthority:
    """Over HTTP."""

    def __init__(self, client: PlaneClient) -> None:
        self._client = client
        self._now: datetime | None = None

    def now(self) -> datetime | None:
        return self._now

    def _get(self, path: str, query: Mapping[str, object] | None = None) -> Item:
        answer = self._client.ask("GET", path, query=query)
        self._now = answer.at
        return dict(answer.body)

    def _post(self, path: str, body: Mapping[str, object]) -> Item:
        answer = self._client.ask("POST", path, body=body)
        self._now = answer.at
        return dict(answer.body)

    def page(self, topic: str, filters: Mapping[str, object]) -> Item:
        return self._get(f"/{topic}", filters)

    def show(self, topic: str, name: str) -> Item:
        return self._get(f"/{topic}/{quoted(name)}")

    def ledger_page(self, cursor: str | None) -> Item:
        return self._get("/ledger/export", {"cursor": cursor})

    def ledger_text(self, digest: str) -> Item:
        return self._get(f"/ledger/texts/{quoted(digest)}")

    def freeze_status(self) -> Item:
        return self._get("/freeze")

    def freeze(self, *, reason: str, for_s: float | None, scope: str, value: str) -> Item:
        return self._post("/freeze", {"on": True, "reason": reason, "for_s": for_s, **_named(scope, value)})

    def thaw(self, *, reason: str, scope: str, value: str) -> Item:
        return self._post(
            "/freeze", {"on": False, "reason": reason, **(_named(scope, value) if scope else {"all": True})}
        )

    def unknown(self) -> Item:
        return self._get("/recover")

    def settle(self, action: str, *, outcome: str, reason: str) -> Item:
        return self._post(f"/recover/{quoted(action)}", {"as": outcome, "reason": reason})

    def create_token(
        self, *, name: str, roles: tuple[str, ...], person: str, for_s: float | None, teams: tuple[str, ...]
    ) -> Item:
        wanted = {"name": name, "roles": list(roles), "person": person or None, "for_s": for_s, "teams": list(teams)}
        return self._post("/tokens", wanted)

    def rotate_token(self, name: str, *, overlap_s: float, for_s: float | None) -> Item:
        return self._post(f"/tokens/{quoted(name)}/rotate", {"overlap_s": overlap_s, "for_s": for_s})

    def revoke_token(self, name: str) -> Item:
        return dict(self._client.delete(f"/tokens/{quoted(name)}"))

    def tokens(self) -> Item:
        return self._get("/tokens")


class LocalAuthority:
    """The store itself, as its owner.  `offline`: an `app.bootstrap.Offline`."""

    def __init__(self, offline: Any) -> None:
        from fleetwarden.app.identity import local_admin

        self._lists, self._administration = offline.lists, offline.administration
        self._store = offline.store
        self._ledger = offline.ledger
        self._caller = local_admin()

    def knows(self, secret: str | None) -> bool:
        """Whether a token is valid."""
        from fleetwarden.app.identity import Unauthenticated, authenticate

        try:
            return secret is not None and bool(authenticate(self._store, secret))
        except Unauthenticated:
            return False

    def now(self) -> datetime | None:
        return instant_of(self._store.read(lambda tx: tx.now()))

    def page(self, topic: str, filters: Mapping[str, object]) -> Item:
        from fleetwarden.domain.identifiers import instant
        from fleetwarden.ports.stores import Page

        given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
        if "since" in given:
            given["since"] = instant(datetime.fromisoformat(str(given["since"])))
        if "cursor" in given:
            given["before"] = int(given.pop("cursor"))
        return dict(self._lists.page(self._caller, topic, Page(**given)))

    def show(self, topic: str, name: str) -> Item:
        return dict(self._lists.show(self._caller, topic, name))

    def ledger_page(self, cursor: str | None) -> Item:
        return dict(self._ledger.page(self._caller, cursor))

    def ledger_text(self, digest: str) -> Item:
        return dict(self._ledger.text(self._caller, digest))

    def freeze_status(self) -> Item:
        return dict(self._administration.freeze_status(self._caller))

    def freeze(self, *, reason: str, for_s: float | None, scope: str, value: str) -> Item:
        frozen = self._administration.freeze(self._caller, reason=reason, for_s=for_s, scope=scope, value=value)
        return dict(frozen)

    def thaw(self, *, reason: str, scope: str, value: str) -> Item:
        return dict(self._administration.thaw(self._caller, reason=reason, scope=scope, value=value))

    def unknown(self) -> Item:
        return dict(self._administration.unknown(self._caller))

    def settle(self, action: str, *, outcome: str, reason: str) -> Item:
        return dict(self._administration.settle(self._caller, action, outcome=outcome, reason=reason))

    def create_token(
        self, *, name: str, roles: tuple[str, ...], person: str, for_s: float | None, teams: tuple[str, ...]
    ) -> Item:
        made = self._administration.create_token(
            self._caller, name=name, roles=roles, person=person, for_s=for_s, teams=teams
        )
        return dict(made)

    def rotate_token(self, name: str, *, overlap_s: float, for_s: float | None) -> Item:
        made = self._administration.rotate_token(self._caller, name, overlap_s=overlap_s, for_s=for_s)
        return dict(made)

    def revoke_token(self, name: str) -> Item:
        return dict(self._administration.revoke_token(self._caller, name))

    def tokens(self) -> Item:
        return dict(self._administration.tokens(self._caller))


def _named(scope: str, value: str) -> Item:
    return {scope: value} if value else {}


@contextmanager
def opened(settings: Any) -> Iterator[LocalAuthority]:
    """The store of a plane that does not run, for as long as the block lasts.

    Raises Misconfigured if a plane holds it after all.
    """
    from fleetwarden.app.bootstrap import Offline

    offline = Offline(settings)
    try:
        yield LocalAuthority(offline)
    finally:
        offline.close()
