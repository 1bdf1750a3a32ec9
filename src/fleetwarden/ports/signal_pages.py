"""A source of samples that is read page by page: for catalogues that fit into nobody's memory.

A source answers one bounded page at a time, always in the same order, and says of which query and of which of its
states the page is.  It judges nothing: what may be believed is the reader's to say.
"""

from __future__ import annotations

from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.signal_authority import SentSample
from fleetwarden.domain.signal_query import SignalQuery

__all__ = ["SignalPageSource", "SourcePage"]


class SourcePage(Record):
    """What a source answers.  `next`: where the page after begins, in the source's own words of at most 1,024
    characters; "": there is none.  No samples means that it has none, and says nothing about any value."""

    query_digest: str
    snapshot: str
    samples: tuple[SentSample, ...] = ()
    next: str = ""


class SignalPageSource(Protocol):
    """Asked by one reader at a time.

    `remote`: samples come from outside this process, so that each has to be attested.
    """

    name: str
    remote: bool

    def page(self, query: SignalQuery, query_digest: str, after: str, limit: int, timeout_s: float) -> SourcePage:
        """The page that begins behind `after` ("": the first), at most `limit` samples, within `timeout_s` seconds.

        The samples of one measuring source come in the order of their sequences.  The answer names the digest of the
        query that it answers, as the source understood it, and its snapshot, which is the same for all pages of a
        read.  Raises Retryable if it cannot answer now.
        """
