"""Walking a source of samples page by page, and judging every sample before anybody sees it.

At any moment one page is held and a guard over a bounded number of sources, whatever the catalogue's size.  A page that
answers another question, is of another state of the source, is too large, or does not get on ends the read with a
reason; what was yielded before it stays judged as it was.  Nothing that is refused here becomes a number.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from fleetwarden.domain.errors import FleetError, Misconfigured, Refused, Retryable
from fleetwarden.domain.identifiers import SECOND, Micros
from fleetwarden.domain.signal_authority import Rejection, SentSample, judge
from fleetwarden.domain.signal_caps import GLOBAL_CAPS, SignalCaps
from fleetwarden.domain.signal_pages import PageRejection, ReplayGuard, SignalPage
from fleetwarden.domain.signal_query import (
    POSITION_MAX,
    SNAPSHOT_MAX,
    Position,
    SignalFault,
    SignalQuery,
    cursor_of,
    position_of,
    query_problem,
)
from fleetwarden.domain.signals import SKEW_MAX_S
from fleetwarden.ports.attestation import SignalAuthenticator
from fleetwarden.ports.signal_pages import SignalPageSource, SourcePage

__all__ = ["SignalReader"]


_SKEW_MAX: Micros = int(SKEW_MAX_S * SECOND)


class SignalReader:
    """Reads one source.

    `authenticator`: who checks attestations; None only where this process itself has checked them before.
    `monotonic`: seconds of a clock that never goes back, for the time-out.
    """

    def __init__(
        self,
        source: SignalPageSource,
        *,
        authenticator: SignalAuthenticator | None,
        monotonic: Callable[[], float],
        caps: SignalCaps = GLOBAL_CAPS,
    ) -> None:
        """Raises Misconfigured if what is remote would be taken on trust."""
        if source.remote and (authenticator is None or authenticator.fixture):
            raise Misconfigured(
                f"{source.name} is remote, and nothing would check who its samples are from",
                hint="give an authenticator with keys; the fixture authenticator is for tests in this process",
            )
        self._source = source
        self._authenticator = authenticator
        self._monotonic = monotonic
        self._caps = caps

    def pages(
        self,
        query: SignalQuery,
        now: Micros,
        services: Container[str],
        *,
        cursor: str = "",
        guard: ReplayGuard | None = None,
    ) -> Iterator[SignalPage]:
        """The pages, each judged against `now`; at least one, which may be empty.

        `services`: those that there are; `cursor`: of an earlier page of the same query, to go on behind it; `guard`:
        remembered sequences, a new one for this read if None.  Only the time that the source and the judging take
        counts against the time-out.  Raises Refused (its code a SignalFault) and Retryable.
        """
        if (wrong := query_problem(query, self._caps)) is not None:
            raise _refused(*wrong)
        digest = query.digest()
        place = Position(query_digest=digest, snapshot=query.snapshot, after="", number=0, items=0)
        if cursor:
            place = position_of(cursor, digest)
        return self._walk(
            query, place, now, services, ReplayGuard(self._caps.guard_sources) if guard is None else guard
        )

    def _walk(
        self, query: SignalQuery, place: Position, now: Micros, services: Container[str], guard: ReplayGuard
    ) -> Iterator[SignalPage]:
        spent = 0.0
        while True:
            begun = self._monotonic()
            limit = min(query.page_size, query.max_items - place.items)
            found = self._fetch(query, place, max(limit, 1), query.timeout_s - spent)
            page, place = self._judged(query, place, found, now, services, guard)
            spent += self._monotonic() - begun
            if spent > query.timeout_s:
                raise _timed_out(self._source.name, query)
            yield page
            if not page.next_cursor:
                return

    def _fetch(self, query: SignalQuery, place: Position, limit: int, left: float) -> SourcePage:
        if left <= 0:
            raise _timed_out(self._source.name, query)
        try:
            found = self._source.page(query, place.query_digest, place.after, limit, left)
        except FleetError:
            raise
        except Exception as error:  # a source may be anybody's code
            raise Retryable(f"{self._source.name} failed: {type(error).__name__}: {error}"[:300]) from error
        if found.query_digest != place.query_digest:
            raise _refused(SignalFault.QUERY_DIGEST, f"{self._source.name} answers another query")
        if place.snapshot and found.snapshot != place.snapshot:
            raise _refused(SignalFault.SNAPSHOT_CHANGED, f"{self._source.name} has changed since the first page")
        if len(found.samples) > limit:
            told = f"{self._source.name} answers {len(found.samples):,} samples, asked for were {limit:,}"
            raise _refused(SignalFault.PAGE_TOO_LARGE, told)
        if len(found.snapshot) > SNAPSHOT_MAX or not found.snapshot.isprintable():
            raise _refused(SignalFault.SNAPSHOT_CHANGED, f"{self._source.name} names no snapshot of its own")
        if found.next == place.after != "" or len(found.next) > POSITION_MAX or not found.next.isprintable():
            raise _refused(SignalFault.PAGE_REPEATS, f"{self._source.name} does not say where its next page begins")
        return found

    def _judged(
        self,
        query: SignalQuery,
        place: Position,
        found: SourcePage,
        now: Micros,
        services: Container[str],
        guard: ReplayGuard,
    ) -> tuple[SignalPage, Position]:
        good: list[SentSample] = []
        bad: list[PageRejection] = []
        for index, one in enumerate(found.samples):
            wrong = self._problem(query, one, now, services) or guard.problem(one)
            if wrong is None:
                good.append(one)
            else:
                bad.append(PageRejection(index=index, code=wrong[0], reason=wrong[1], refused=one))
        items = place.items + len(found.samples)
        cut = bool(found.next) and items >= query.max_items
        after = Position(
            query_digest=place.query_digest,
            snapshot=found.snapshot,
            after=found.next,
            number=place.number + 1,
            items=items,
        )
        page = SignalPage(
            query_digest=place.query_digest,
            snapshot=found.snapshot,
            window_start=query.window_start,
            window_end=query.window_end,
            number=place.number,
            samples=tuple(good),
            rejections=tuple(bad),
            next_cursor=cursor_of(after) if found.next and not cut else "",
            cut=cut,
        )
        return page, after

    def _problem(
        self, query: SignalQuery, sample: SentSample, now: Micros, services: Container[str]
    ) -> tuple[Rejection, str] | None:
        wrong = judge(sample, now, services) or _other_scope(query, sample)
        if wrong is not None or self._authenticator is None:
            return wrong
        if (problem := self._authenticator.problem(sample)) is not None:
            return Rejection.UNATTESTED if sample.attestation is None else Rejection.ATTESTATION, problem
        return None


def _other_scope(query: SignalQuery, sample: SentSample) -> tuple[Rejection, str] | None:
    """Why a sample answers something else than was asked for."""
    at = sample.sampled_at or 0
    if at < query.window_start:
        return Rejection.STALE, "it was measured before the query's window"
    if at > query.window_end + _SKEW_MAX:
        return Rejection.FUTURE, "it was measured after the query's window"
    if query.sources and sample.source not in query.sources:
        return Rejection.SOURCE, f"{sample.source!r} is none of the sources that were asked"
    if query.services and sample.service not in query.services:
        return Rejection.SCOPE, f"{sample.service!r} was not asked for"
    if query.kinds and sample.kind not in query.kinds:
        return Rejection.SCOPE, f"kind {sample.kind.value} was not asked for"
    if query.tenant and sample.tenant != query.tenant:
        return Rejection.SCOPE, f"tenant {sample.tenant!r}, asked for was {query.tenant!r}"
    if query.scale_unit and sample.scale_unit != query.scale_unit:
        return Rejection.SCOPE, f"unit {sample.scale_unit!r}, asked for was {query.scale_unit!r}"
    return None


def _refused(fault: SignalFault, why: str) -> Refused:
    return Refused(why, code=fault.value)


def _timed_out(name: str, query: SignalQuery) -> Retryable:
    return Retryable(
        f"{name} was not read within {query.timeout_s:g} s",
        code=SignalFault.TIMED_OUT.value,
        hint="ask for less, or go on from the last page's cursor",
    )
