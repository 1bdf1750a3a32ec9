"""Every lifecycle has one table, and a move outside it raises."""

from __future__ import annotations

from itertools import product

import pytest

from fleetwarden.domain.errors import IllegalMove
from fleetwarden.domain.lifecycles import APPROVAL, OUTBOX, WORK, ApprovalState, OutboxState, WorkState

OUTBOX_MOVES = {
    ("prepared", "running"), ("prepared", "abandoned"), ("running", "succeeded"), ("running", "failed"),
    ("running", "simulated"), ("running", "recovery_pending"), ("recovery_pending", "succeeded"),
    ("recovery_pending", "failed"),
}  # fmt: skip
APPROVAL_MOVES = {("pending", "granted"), ("granted", "closed"), ("granted", "voided")} | {
    (at, to) for at in ("pending", "granted") for to in ("rejected", "expired", "superseded")
}
WORK_MOVES = {("ready", "leased"), ("leased", "leased"), ("leased", "ready"), ("leased", "done"), ("leased", "dead")}


@pytest.mark.req("PRO-13", "AUT-14", "RUN-2")
@pytest.mark.parametrize(
    ("lifecycle", "states", "moves"),
    [(OUTBOX, OutboxState, OUTBOX_MOVES), (APPROVAL, ApprovalState, APPROVAL_MOVES), (WORK, WorkState, WORK_MOVES)],
)
def test_exactly_these_moves_exist(lifecycle, states, moves) -> None:
    for at, to in product(states, states):
        if (at.value, to.value) in moves:
            assert lifecycle.advance(at, to) is to
        else:
            with pytest.raises(IllegalMove):
                lifecycle.advance(at, to)
    assert {state.value for state in states if lifecycle.is_end(state)} == {
        state.value for state in states if not any(at == state.value for at, _ in moves)
    }
