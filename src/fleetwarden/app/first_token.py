"""The admin token that a plane begins with: the one that its settings name, or one that is made once.

The settings' token is always made valid, and exchanged when its file changes; the one before it ends then.  A made one
is only made while no admin token opens anything.
"""

from __future__ import annotations

from fleetwarden.app.identity import Role, secret_digest
from fleetwarden.app.rotation import FROM_SETTINGS, live_admins
from fleetwarden.app.secret_files import AdminTokenFile
from fleetwarden.app.setting_values import long_enough
from fleetwarden.app.settings import Settings
from fleetwarden.ports.stores import Store, Tx

__all__ = ["first_admin_token", "watched"]


def first_admin_token(store: Store, settings: Settings, secret: str) -> str | None:
    """Make the first admin token.  A configured secret is always made valid; otherwise `secret` is used once, while no
    admin token lives.  Returns the secret that was made now, or None."""
    configured = settings.fleet_admin_token
    return _make(store, secret if configured is None else configured.get_secret_value(), given=configured is not None)


def _make(store: Store, wanted: str, *, given: bool) -> str | None:
    """`given`: the settings say so, whatever tokens there are; the one that they said before ends."""
    name = FROM_SETTINGS if given else "admin"

    def run(tx: Tx) -> str | None:
        known = tx.tokens.by_digest(secret_digest(wanted))
        if known is not None:
            return None
        live = [one for one in tx.tokens.all() if one.revoked_at is None]
        if not given and live_admins(live, tx.now()):
            return None
        if any(one.name == name for one in live):
            tx.tokens.revoke(name)
        tx.tokens.add(name=name, secret_digest=secret_digest(wanted), roles=(Role.ADMIN.value,), person="admin")
        tx.journal.write(
            topic="token", actor="plane", subject=name, severity="warning", summary=f"made the token {name}"
        )
        return wanted

    return store.transact("first_admin_token", run)


def watched(store: Store, settings: Settings) -> AdminTokenFile | None:
    """What looks after the file of the admin token, if there is one."""
    file, first = settings.fleet_admin_token_file, settings.fleet_admin_token
    if file is None or first is None:
        return None
    return AdminTokenFile(file, first.get_secret_value(), lambda secret: _make(store, long_enough(secret), given=True))
