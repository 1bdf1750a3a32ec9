"""Durable steps: done, retried with backoff, buried when hopeless, and never taken twice."""

from __future__ import annotations

import pytest

from fleetwarden.controllers.worker import Step, Worker
from fleetwarden.domain.errors import Retryable
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.lifecycles import WorkState
from fleetwarden.ports.stores import Page, WorkDraft, WorkItem
from tests.contract.pipeline.conftest import Bench


def enqueue(bench: Bench, kind: str = "step", attempts: int = 2) -> None:
    draft = WorkDraft(kind=kind, key=kind, payload={}, max_attempts=attempts)
    bench.store.transact("enqueue", lambda tx: tx.work.enqueue(draft))


def the(bench: Bench) -> WorkItem:
    return bench.store.read(lambda tx: tx.work.list(Page()))[0]


@pytest.mark.req("RUN-2")
def test_a_step_that_is_done_is_not_done_again(bench: Bench) -> None:
    seen: list[int] = []

    def handler(item: WorkItem) -> Step:
        seen.append(item.seq)
        return Step.done("fine")

    worker = Worker(bench.store, {"step": handler}, holder="w", lease_s=30)
    enqueue(bench)
    assert (worker.run(), worker.run()) == (1, 0)
    assert len(seen) == 1
    assert the(bench).state is WorkState.DONE


@pytest.mark.req("RUN-2")
def test_a_failing_step_backs_off_and_ends_as_a_dead_letter_that_people_hear_of(bench: Bench) -> None:
    def handler(_: WorkItem) -> Step:
        raise Retryable("the disk is full")

    worker = Worker(bench.store, {"step": handler}, holder="w", lease_s=30)
    enqueue(bench, attempts=1)
    worker.run()
    item = the(bench)
    assert (item.state, item.error) == (WorkState.DEAD, "the disk is full")
    assert any("is given up" in line for line in bench.notices())


@pytest.mark.req("RUN-2")
def test_why_a_step_waited_is_told_while_it_waits_and_not_once_it_is_done(bench: Bench, database) -> None:
    steps = [Step.later(0.001, "frozen"), Step.done("fine")]
    worker = Worker(bench.store, {"step": lambda _: steps.pop(0)}, holder="w", lease_s=30)
    enqueue(bench)
    worker.run()
    assert the(bench).error == "frozen"
    database.lapse()
    worker.run()
    assert (the(bench).state, the(bench).error) == (WorkState.DONE, "")


@pytest.mark.req("RUN-2")
def test_a_failing_step_waits_before_it_is_tried_again(bench: Bench) -> None:
    def handler(_: WorkItem) -> Step:
        raise Retryable("not yet")

    worker = Worker(bench.store, {"step": handler}, holder="w", lease_s=30)
    enqueue(bench, attempts=5)
    worker.run()
    item = the(bench)
    assert item.state is WorkState.READY
    assert item.not_before - item.updated_at == SECOND
    assert worker.run() == 0


@pytest.mark.req("RUN-2")
def test_a_step_whose_holders_keep_dying_is_given_up(bench: Bench, database) -> None:
    enqueue(bench, attempts=1)
    bench.store.transact("claim", lambda tx: tx.work.claim("dead", ["step"], 1, 1))
    database.lapse()
    called: list[int] = []

    def handler(item: WorkItem) -> Step:
        called.append(item.seq)
        return Step.done("fine")

    Worker(bench.store, {"step": handler}, holder="w", lease_s=30).run()
    assert called == []
    assert the(bench).state is WorkState.DEAD
