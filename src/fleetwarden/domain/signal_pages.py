"""What a read of samples gives: pages, what they sum up to, and what is kept of it as evidence of a decision.

A page holds the samples that are believed and, beside them, those that are not, each with its code.  What leaves the
path of the metrics (a ledger, a graph, a log) is a projection: counts, times and digests of bounded size, never a value
and never the text of a query.  The text stays in the evidence of the decision that rests on it.  Where nothing was
read there is an empty page: nothing here knows a value that could stand for what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros, digest, rfc3339
from fleetwarden.domain.signal_authority import Rejection, SentSample
from fleetwarden.domain.signal_caps import GLOBAL_CAPS
from fleetwarden.domain.signal_query import SignalQuery
from fleetwarden.domain.signals import SignalKind

__all__ = ["PageRejection", "ReplayGuard", "SignalDecisionEvidence", "SignalPage", "SignalSummary", "Summing"]

SCHEMA_VERSION = "1"
_told = lru_cache(maxsize=256)(rfc3339)  # a fleet's evidence of one tick has few times and fewer texts


@lru_cache(maxsize=16)
def _digest_of(text: str) -> str:
    return digest(text.encode())


class PageRejection(Record):
    """One sample that is not believed: its place in the page, a code, a sentence, and what it was."""

    index: int
    code: Rejection
    reason: str
    refused: SentSample


class SignalPage(Record):
    """One page of a read.

    `samples`: those that are believed, in the source's order; `number`: from 0; `next_cursor`: "" on the last page;
    `cut`: the read ends here because it has read `max_items`, though the source has more.
    """

    query_digest: str
    snapshot: str
    window_start: Micros
    window_end: Micros
    number: int
    samples: tuple[SentSample, ...]
    rejections: tuple[PageRejection, ...] = ()
    next_cursor: str = ""
    cut: bool = False

    def digest(self) -> str:
        """Of the samples that are believed, in their order."""
        return digest(self.samples)

    def graph_projection(self) -> dict[str, JsonValue]:
        """What may be told outside: bounded whatever the page holds, without values, names or query text."""
        summing = Summing(self.query_digest, self.snapshot, self.window_start, self.window_end)
        summing.add(self)
        told = summing.summary().graph_projection()
        return {**told, "record": "signal_page", "number": self.number, "digest": self.digest()}


class SignalSummary(Record):
    """What the pages of one read come to.

    `kinds`: believed samples by kind; `rejected`: the others by code; `oldest`, `newest`: when the believed ones were
    measured, None where there are none; `digest`: of the pages' digests in order; `complete`: the source was read to
    its end.
    """

    query_digest: str
    snapshot: str
    window_start: Micros
    window_end: Micros
    pages: int = 0
    samples: int = 0
    kinds: Mapping[str, int] = {}
    rejected: Mapping[str, int] = {}
    oldest: Micros | None = None
    newest: Micros | None = None
    digest: str = ""
    complete: bool = False

    def graph_projection(self) -> dict[str, JsonValue]:
        """What may be told outside: bounded whatever was read, without values, names or query text."""
        return {
            "schema_version": SCHEMA_VERSION,
            "record": "signal_summary",
            "query_digest": self.query_digest,
            "snapshot": self.snapshot,
            "window": [_told(self.window_start), _told(self.window_end)],
            "pages": self.pages,
            "samples": self.samples,
            "kinds": dict(sorted(self.kinds.items())),
            "rejected": dict(sorted(self.rejected.items())),
            "oldest": _told(self.oldest),
            "newest": _told(self.newest),
            "digest": self.digest,
            "complete": self.complete,
        }


class Summing:
    """Adds pages up, one after the other, and keeps none of them."""

    def __init__(self, query_digest: str, snapshot: str, window_start: Micros, window_end: Micros) -> None:
        self._begun = SignalSummary(
            query_digest=query_digest, snapshot=snapshot, window_start=window_start, window_end=window_end
        )
        self._pages = self._samples = 0
        self._kinds: Counter[SignalKind] = Counter()
        self._rejected: Counter[Rejection] = Counter()
        self._oldest: Micros | None = None
        self._newest: Micros | None = None
        self._digest = ""
        self._complete = False

    @classmethod
    def of(cls, query: SignalQuery) -> Summing:
        """For the pages of this query."""
        return cls(query.digest(), query.snapshot, query.window_start, query.window_end)

    def add(self, page: SignalPage) -> None:
        """Add the next page.  Raises ValueError for a page of another query."""
        if page.query_digest != self._begun.query_digest:
            raise ValueError("query_digest: the page answers another query")
        if not self._pages:
            self._begun = msgspec.structs.replace(self._begun, snapshot=page.snapshot)
        self._pages += 1
        self._samples += len(page.samples)
        self._kinds.update([one.kind for one in page.samples])
        self._rejected.update([one.code for one in page.rejections])
        times = [one.sampled_at for one in page.samples if one.sampled_at is not None]
        if times:
            self._oldest = min(times) if self._oldest is None else min(self._oldest, *times)
            self._newest = max(times) if self._newest is None else max(self._newest, *times)
        self._digest = digest([self._digest, page.digest()])
        self._complete = not page.next_cursor and not page.cut

    def summary(self) -> SignalSummary:
        """What the pages so far come to."""
        return msgspec.structs.replace(
            self._begun,
            pages=self._pages,
            samples=self._samples,
            kinds={one.value: number for one, number in self._kinds.items()},
            rejected={one.value: number for one, number in self._rejected.items()},
            oldest=self._oldest,
            newest=self._newest,
            digest=self._digest,
            complete=self._complete,
        )


class SignalDecisionEvidence(Record):
    """What a decision rests on: exactly what was asked, of which state of the source, over which window, and what came
    of it.  `text` is the query's, exact; everything that goes further than the decision is `graph_projection`."""

    text: str
    query_digest: str
    snapshot: str
    window_start: Micros
    window_end: Micros
    summary: SignalSummary

    def __post_init__(self) -> None:
        if self.summary.query_digest != self.query_digest or self.summary.snapshot != self.snapshot:
            raise ValueError("summary: it sums up another read than query_digest and snapshot name")

    @classmethod
    def of(cls, query: SignalQuery, summary: SignalSummary) -> SignalDecisionEvidence:
        """The evidence of a decision that rests on this read.  Raises ValueError if the summary is of another one."""
        return cls(
            text=query.text,
            query_digest=query.digest(),
            snapshot=summary.snapshot,
            window_start=query.window_start,
            window_end=query.window_end,
            summary=summary,
        )

    def text_digest(self) -> str:
        """Of the query's text as it is: the name under which a store keeps it."""
        return _digest_of(self.text)

    def graph_projection(self) -> dict[str, JsonValue]:
        """The summary's, with the digest of the text in place of the text."""
        told = self.summary.graph_projection()
        return {**told, "record": "signal_decision_evidence", "text_digest": self.text_digest()}


class ReplayGuard:
    """Remembers how far the sequence of each source has come, for a bounded number of sources.

    A full guard refuses sources that it does not know and goes on with those that it does: what it cannot remember it
    cannot vouch for.
    """

    def __init__(self, sources: int = GLOBAL_CAPS.guard_sources) -> None:
        self._most = sources
        self._marks: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def problem(self, sample: SentSample) -> tuple[Rejection, str] | None:
        """Why its sequence cannot be taken, or None, and it is remembered.  A sample without one is not guarded."""
        if sample.sequence is None:
            return None
        known = self._marks.get(sample.source)
        if known is None and len(self._marks) >= self._most:
            return Rejection.GUARD_FULL, f"{self._most:,} sources are remembered: no new one is taken"
        if known is not None and sample.sequence <= known:
            return Rejection.REPLAYED, f"sequence {sample.sequence} is not above {known}"
        self._marks[sample.source] = sample.sequence
        return None
