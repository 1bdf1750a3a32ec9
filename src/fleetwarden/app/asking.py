"""What every request of a person has to carry, whoever will carry it out: a reason, and a key that is its person's own.

Pure checks and one digest.  Nothing is decided or written here.
"""

from __future__ import annotations

from fleetwarden.domain.actions import ActionRequest
from fleetwarden.domain.errors import Misconfigured, OutboxConflict
from fleetwarden.domain.identifiers import digest

__all__ = ["KEY_MAX", "REASON_MAX", "check_asking", "key_of", "other_body"]

KEY_MAX = 200  # characters
REASON_MAX = 2000


def check_asking(reason: str, key: str | None) -> None:
    """Raises Misconfigured where the reason is missing or too long, or the key empty or too long."""
    if not reason.strip() or len(reason) > REASON_MAX:
        raise Misconfigured(f"a proposal needs a reason of 1 to {REASON_MAX} characters", hint="nothing was proposed")
    if key is not None and not 1 <= len(key) <= KEY_MAX:
        raise Misconfigured(f"an idempotency key has 1 to {KEY_MAX} characters", hint="nothing was proposed")


def key_of(person: str, key: str) -> str:
    """The key in the ledger: two people may use the same one without meeting."""
    return digest(["proposal", person, key]).removeprefix("sha256:")


def other_body(before: ActionRequest) -> OutboxConflict:
    """The refusal of a key that came with another request before."""
    return OutboxConflict(
        f"this idempotency key came with another request before: {before.kind} {before.target}",
        hint="a new request needs a new key",
    )
