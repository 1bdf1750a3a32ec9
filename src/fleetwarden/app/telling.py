"""Putting together who tells people: the notifier that was given, `notify.yml`'s targets, and what stays held up.

Nothing is decided here.  A target that fails or hangs holds up no pass and no other target: passes only begin with
sending, and each target is served on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fleetwarden.adapters.deadlines import DeadlineChannel, DeadlineNotifier
from fleetwarden.adapters.files.notify import NotifyFile
from fleetwarden.adapters.messages import AppriseChannel
from fleetwarden.app import plugins
from fleetwarden.app.message_views import Messages
from fleetwarden.app.parts import Parts
from fleetwarden.controllers import blocked
from fleetwarden.controllers.blocked import BlockedRepairs
from fleetwarden.controllers.delivering import Delivering
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.messenger import CADENCE, Messenger
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.spreading import Spreading
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.notify_file import TARGETS_MAX
from fleetwarden.ports.notices import Channel

__all__ = ["MESSAGES", "Telling"]

MESSAGES = "messages"
EVERY_S = 5.0


class Telling:
    """What tells people for one plane.  Under a clock that is moved by hand everything runs on the caller's thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pool: ThreadPoolExecutor | None = None
        by_hand = parts.by_hand
        self.file = NotifyFile(parts.settings.config_dir)
        plain: Channel = AppriseChannel(parts.settings.config_dir, plugins.notifier)
        self.channel: Channel = plain if by_hand else DeadlineChannel(parts.clock, plain)
        notifier = parts.notifier if by_hand else DeadlineNotifier(parts.clock, parts.notifier)
        self.messenger = Messenger(parts.store, notifier)
        self.spreading = Spreading(parts.store, self.file, self._group_of)
        self.delivering = Delivering(
            parts.store, self.file, self.channel, self._dispatch, sender=parts.settings.fleet_host
        )
        self.blocked = BlockedRepairs(
            parts.store,
            parts.configuration,
            standings=parts.reconciler.standings,
            seen=parts.sightings.last,
            lease=lambda: parts.loop.lease(RECONCILER),
            after=int(parts.settings.blocked_page_s * SECOND),
        )
        self.views = Messages(parts.store, self.file, self.channel, parts.settings.fleet_host)

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""
        every = [
            Subscription(name=CADENCE, interval_s=EVERY_S, run=self.messenger.run, vital=False),
            Subscription(name=MESSAGES, interval_s=1.0, run=self._messages, vital=False),
        ]
        if self._parts.settings.fleet_reconciler:
            every.append(
                Subscription(
                    name=blocked.CADENCE,
                    interval_s=EVERY_S,
                    run=lambda _: self.blocked.run(),
                    leased=False,
                    vital=False,
                )
            )
        return every

    def _messages(self, fence: LeaseFence | None) -> int:
        return self.spreading.run(fence) + self.delivering.run(fence)

    def close(self, *, wait: bool) -> None:
        """Let the messages in flight end; what waits is sent by whoever leads next."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)

    def _group_of(self, subject: str) -> str:
        service = self._parts.configuration.current().last_good_fleet.services.get(subject)
        return "" if service is None else service.group

    def _dispatch(self, job: Callable[[], None]) -> None:
        if self._parts.by_hand:
            job()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(TARGETS_MAX, thread_name_prefix="message")
        self._pool.submit(job)
