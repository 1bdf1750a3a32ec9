"""Sessions of browsers: a random id in a cookie, and behind it the digest of the token that opened it.

They live in memory only: a restart ends them all.  The token itself is not kept, and its digest is looked up again for
every request, so that a revoked or expired token ends its sessions at once.  The id is kept as a digest, too.  How many
there are and how long they last is bounded.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from fleetwarden.app.identity import new_secret, secret_digest
from fleetwarden.ports.system import Clock

__all__ = ["Message", "Session", "Sessions"]

SESSIONS_MAX = 1000
LIFETIME_S = 12 * 3600.0
MESSAGE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What the last thing that a person did here led to.  `until` is on the clock's monotonic scale."""

    text: str
    good: bool
    until: float


@dataclass(slots=True, kw_only=True)
class Session:
    """One browser.  `form_secret` stands in each of its forms, so that no other page can send one."""

    token_digest: str
    form_secret: str
    ends_at: float  # on the clock's monotonic scale
    message: Message | None = None

    def sent_form(self, form_secret: str) -> bool:
        """Whether a form with this secret came from one of our pages for this session."""
        return hmac.compare_digest(self.form_secret.encode(), form_secret.encode())


class Sessions:
    """All sessions of one plane.  Safe to call from several threads.  `new_id` makes unguessable ids."""

    def __init__(self, clock: Clock, new_id: Callable[[], str] = new_secret) -> None:
        self._clock = clock
        self._new_id = new_id
        self._lock = Lock()
        self._open: dict[str, Session] = {}

    def open(self, token_digest: str) -> str:
        """Begin a session and return its id.  Past the bound the oldest one ends."""
        session_id = self._new_id()
        made = Session(
            token_digest=token_digest, form_secret=self._new_id(), ends_at=self._clock.monotonic() + LIFETIME_S
        )
        with self._lock:
            self._drop_ended()
            while len(self._open) >= SESSIONS_MAX:
                del self._open[next(iter(self._open))]
            self._open[secret_digest(session_id)] = made
        return session_id

    def find(self, session_id: str) -> Session | None:
        """The session of that id, unless it has ended."""
        with self._lock:
            found = self._open.get(secret_digest(session_id))
            return found if found is not None and self._clock.monotonic() < found.ends_at else None

    def end(self, session_id: str) -> None:
        """End a session; one that is not there is left so."""
        with self._lock:
            self._open.pop(secret_digest(session_id), None)

    def tell(self, session: Session, text: str, *, good: bool) -> None:
        """Leave a message for the next pages of that session."""
        session.message = Message(text=text, good=good, until=self._clock.monotonic() + MESSAGE_S)

    def message_of(self, session: Session) -> Message | None:
        """The message, while it is fresh."""
        message = session.message
        return message if message is not None and self._clock.monotonic() < message.until else None

    def _drop_ended(self) -> None:
        now = self._clock.monotonic()
        for key in [key for key, one in self._open.items() if one.ends_at <= now]:
            del self._open[key]
