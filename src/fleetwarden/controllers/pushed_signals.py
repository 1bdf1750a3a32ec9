"""The provider of pushed samples: what services sent last, read page by page out of the store.

Samples were attested when they were taken, so that reading them asks nobody again; everything else is judged anew, by
the time that it is now.  A read that has come to its most samples goes on at the next one where it stopped, so that no
service is left out for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from fleetwarden.controllers.paged_signals import answers_of, query_for
from fleetwarden.controllers.signal_reading import SignalReader
from fleetwarden.domain.errors import Refused, Retryable
from fleetwarden.domain.identifiers import canonical_json
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_file import PUSHED
from fleetwarden.domain.signal_pages import SignalPage
from fleetwarden.domain.signal_query import SignalFault, SignalQuery
from fleetwarden.domain.signals import Definition, Pair, Reading
from fleetwarden.ports.pushed import SampleKey
from fleetwarden.ports.signal_pages import SourcePage
from fleetwarden.ports.stores import Store, Tx

__all__ = ["PushedPages", "PushedSignals"]

SERVICES_MAX = 500  # that one statement names


class PushedPages:
    """The samples that a store keeps of some services, as a page source: those of each part before the next one's."""

    name = PUSHED
    remote = False

    def __init__(self, store: Store, *parts: Sequence[str]) -> None:
        self._store = store
        self._chunks = [
            part[first : first + SERVICES_MAX] for part in parts for first in range(0, len(part), SERVICES_MAX)
        ]

    def page(self, query: SignalQuery, query_digest: str, after: str, limit: int, timeout_s: float) -> SourcePage:  # noqa: ARG002 -- the port's
        """See SignalPageSource; the store bounds its own time.  Raises Refused, StoreUnavailable."""
        number, place = _place(after) if after else (0, None)
        found: list[SentSample] = []
        while number < len(self._chunks) and len(found) < limit:
            chunk, begin, most = self._chunks[number], place, limit - len(found)
            rows = self._store.read(partial(_rows, chunk, begin, most))
            # Sequences were judged when the samples were taken, in the order in which they came, which is not this one.
            found += [msgspec.structs.replace(one, sequence=None) for one in rows]
            if len(rows) < most:
                number, place = number + 1, None
            else:
                last = rows[-1]
                place = (last.service, last.source, last.scale_unit, last.kind.value)
        more = number < len(self._chunks)
        told = canonical_json([number, place]).decode() if more else ""
        return SourcePage(query_digest=query_digest, snapshot=PUSHED, samples=tuple(found), next=told)


class PushedSignals:
    """Reads the newest samples.  `caps`: those in force; `monotonic`: seconds of a clock that never goes back."""

    def __init__(
        self, store: Store, *, monotonic: Callable[[], float], caps: Callable[[], SignalCaps] = lambda: GLOBAL_CAPS
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._caps = caps
        self._from = ""  # the service at which the next read begins

    def read(self, pairs: Mapping[Pair, Definition]) -> dict[Pair, Reading]:
        """Answer for these pairs.  Raises StoreUnavailable, Retryable if it takes longer than it may."""
        if not pairs:
            return {}
        caps = self._caps()
        names = sorted({pair.service for pair in pairs})
        first = self._from
        parts = [one for one in names if one >= first], [one for one in names if one < first]
        now = self._store.read(lambda tx: tx.now())
        source = PushedPages(self._store, *parts)
        reader = SignalReader(source, authenticator=None, monotonic=self._monotonic, caps=caps)
        pages = reader.pages(query_for(PUSHED, pairs.values(), now, caps), now, frozenset(names))
        return answers_of(self._followed(pages, [*parts[0], *parts[1]]), pairs, now, PUSHED)

    def _followed(self, pages: Iterable[SignalPage], ordered: Sequence[str]) -> Iterator[SignalPage]:
        """The pages; where they end before their time, the next read begins.

        What was read before the time was over counts; that more was not read is told by an empty page that is cut.
        """
        last: SignalPage | None = None
        try:
            for page in pages:
                last = page if page.samples or page.rejections else last
                if page.cut:
                    self._go_on_at(page, ordered)
                elif not page.next_cursor:
                    self._from = ""
                yield page
        except Retryable as error:
            if last is None or error.code != SignalFault.TIMED_OUT:
                raise
            self._go_on_at(last, ordered)
            yield msgspec.structs.replace(last, samples=(), rejections=(), next_cursor="", cut=True)

    def _go_on_at(self, page: SignalPage, ordered: Sequence[str]) -> None:
        """Begin the next read with the service that this page ended in; with the one after it if this read did."""
        last = _last(page).service
        self._from = last if last != ordered[0] else ordered[1 % len(ordered)]


def _last(page: SignalPage) -> SentSample:
    """The last sample of a page that is not empty, believed or not."""
    if page.rejections and page.rejections[-1].index == len(page.samples) + len(page.rejections) - 1:
        return page.rejections[-1].refused
    return page.samples[-1]


def _rows(services: Sequence[str], after: SampleKey | None, limit: int, tx: Tx) -> Sequence[SentSample]:
    return tx.pushed.page(services, after, limit)


def _place(after: str) -> tuple[int, SampleKey | None]:
    try:
        return msgspec.json.decode(after.encode(), type=tuple[int, SampleKey | None])
    except (msgspec.MsgspecError, UnicodeError):
        raise Refused("this is no place of the pushed samples", code=SignalFault.MALFORMED_CURSOR.value) from None
