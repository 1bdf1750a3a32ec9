"""What counts as evidence, and what is left out of every rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from fleetwarden.controllers.sightings import Sightings
from fleetwarden.domain.fleet import ObservedService, Service
from fleetwarden.domain.identifiers import SECOND, Micros
from tests.contract.pipeline.conftest import Bench


class Shifted:
    """Answers dated so far from the question, and about a service that nobody asked about as well."""

    def __init__(self, bench: Bench, shift: Micros, also: str = "") -> None:
        self._bench, self._shift, self._also = bench, shift, also
        self.name, self.substrates = "shifted", bench.substrate.substrates

    def observe(self, services: Sequence[Service], at: Micros) -> Mapping[str, ObservedService]:
        seen = {
            name: msgspec.structs.replace(one, observed_at=at + self._shift)
            for name, one in self._bench.substrate.observe(services, at).items()
        }
        if self._also:
            seen[self._also] = msgspec.structs.replace(seen["web"], name=self._also)
        return seen


@pytest.mark.req("OBS-1", "REC-3", "PRO-6")
@pytest.mark.parametrize("shift_s", [-61, 1, 3600])
def test_an_answer_that_is_too_old_or_dated_ahead_is_no_evidence(bench: Bench, shift_s: int) -> None:
    bench.substrate.crash("web", 1)
    sightings = Sightings(bench.store, [Shifted(bench, shift_s * SECOND)], max_age_s=60)
    assert sightings.look(list(bench.files.current().fleet.services.values())).seen == {}


@pytest.mark.req("OBS-1")
def test_an_answer_nobody_asked_for_is_left_out(bench: Bench) -> None:
    look = Sightings(bench.store, [Shifted(bench, 0, also="other")], max_age_s=60).look(
        list(bench.files.current().fleet.services.values())
    )
    assert set(look.seen) == {"web"}


@pytest.mark.req("HLT-3")
def test_an_observer_that_is_not_asked_any_more_does_not_count(bench: Bench) -> None:
    supervision = bench.supervision
    at = bench.store.read(lambda tx: tx.now())
    supervision.observed(at, {"gone": frozenset({""})}, {"gone": "socket closed"})
    assert not supervision.evidence().convergence_ready
    supervision.observed(at, {"here": frozenset({""})}, {})
    assert supervision.evidence().convergence_ready
