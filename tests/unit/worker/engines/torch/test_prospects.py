"""What is said of a list that can't be computed in its time: its own size, its tenant's other work, or ours."""

import asyncio
import threading
import time

import pytest

from penstock.domain.errors import DeadlineExceeded, DeadlineInQueue, ExceedsEngine
from penstock.domain.ids import TenantId
from penstock.domain.outcome import TENANT_QUEUE
from penstock.domain.serving.request import Api
from penstock.gateway.dispatch import verdict
from penstock.worker.engines.torch.handler import Features, Model
from penstock.worker.engines.torch.prospects import Prospect, Prospects
from penstock.worker.share import Share
from tests.support.engines.torch_handler import Toy, model, running

ANN, BOB = TenantId("ann"), TenantId("bob")
TIME_S = 10.0


def a_list(items: int, tenant: TenantId = ANN) -> Prospect:
    return Prospect(tenant, items, 0.0, TIME_S)


def computed(prospect: Prospect, items: int, each_s: float) -> Prospect:
    for _ in range(items):
        prospect.did(each_s)
    return prospect


def test_a_list_that_the_whole_device_could_not_compute_in_time_is_too_large() -> None:
    """It is told so after a tenth of its time, and how many would do."""
    prospect = computed(a_list(2048), 50, 1 / 64)
    prospect.check(0.9)
    with pytest.raises(ExceedsEngine, match="2048 inputs, and about 640 like these are computed in the 10 s"):
        prospect.check(1.0)


@pytest.mark.parametrize(("passed_s", "items"), [(1.0, 700), (5.0, 600), (9.0, 500)])
def test_the_sooner_the_less_is_believed(passed_s: float, items: int) -> None:
    """What may still be in time goes on: first items are slower than later ones."""
    computed(a_list(items), 20, 1 / 64).check(passed_s)


def test_a_small_list_is_never_too_large() -> None:
    """Nor is one of which nothing is done yet: nobody knows."""
    computed(a_list(32), 16, 1 / 64).check(9.0)
    a_list(100_000).check(9.0)


def test_one_input_is_no_list_that_is_too_large() -> None:
    """However slowly the device computed it: there is no smaller list to send."""
    prospects, one = Prospects(), computed(a_list(1), 1, 2 * TIME_S)
    one.check(TIME_S)
    with prospects.of(one), prospects.of(a_list(1, BOB)):
        assert isinstance(prospects.ran_out(one), DeadlineInQueue)


def test_who_needs_more_than_its_share_beside_others_is_too_large() -> None:
    """At the end of its time, where the device alone would have done."""
    prospects, one = Prospects(), computed(a_list(400), 200, 1 / 64)
    with prospects.of(one), prospects.of(a_list(1, BOB)):
        said = prospects.ran_out(one)
    assert isinstance(said, ExceedsEngine)
    assert "about 320 like these are computed beside 1 other tenants in the 10 s" in said.message


@pytest.mark.parametrize(("own", "others", "reason"), [(100, 1, TENANT_QUEUE), (0, 100, None), (1, 100, None)])
def test_who_waits_behind_its_own_tenants_work_is_told_so(own: int, others: int, reason: str | None) -> None:
    """It spends none of the platform's error budget; who is kept waiting by others does."""
    prospects, one = Prospects(), a_list(1)
    with prospects.of(one), prospects.of(a_list(own)), prospects.of(a_list(others, BOB)):
        said = prospects.ran_out(one)
    assert isinstance(said, DeadlineInQueue)
    assert said.reason == reason


@pytest.mark.parametrize(("own", "reason"), [(100, TENANT_QUEUE), (0, None)])
def test_who_runs_out_while_it_is_computed_was_not_in_a_queue(own: int, reason: str | None) -> None:
    """Whose doing it is stays what it was: that a batch had begun blames nobody."""
    prospects, one = Prospects(), a_list(1)
    one.began()
    with prospects.of(one), prospects.of(a_list(own)), prospects.of(a_list(1, BOB)):
        said = prospects.ran_out(one)
    assert isinstance(said, DeadlineExceeded)
    assert said.reason == reason


class Slow(Toy):
    """Takes a while for each batch."""

    def forward(self, batch: Features) -> Features:
        time.sleep(0.02)
        return super().forward(batch)


async def test_the_engine_refuses_a_list_that_is_too_large() -> None:
    """S6, M2: with 400 and the bound in words that reach the caller, and long before the deadline."""
    async with running(Slow(model())) as engine:
        answer = await engine.post(Api.EMBEDDINGS, {"input": ["a"] * 4096}, share=Share(1), time_s=2.0)
    assert answer.status == 400
    told = verdict.of_answer(400, answer.headers["x-penstock-refused"].encode(), answer.body)
    assert isinstance(told.error, ExceedsEngine)
    assert "send smaller lists" in told.error.message
    assert not told.retry


async def test_the_engine_says_in_time_that_a_request_waited_for_its_own_tenant() -> None:
    """S6: before the gateway's own deadline ends it, which would be the platform's failure."""
    async with running(Slow(model())) as engine:
        asking = [engine.post(Api.EMBEDDINGS, {"input": "a b"}, time_s=1.0) for _ in range(500)]
        answers = await asyncio.gather(*asking)
    late = [one for one in answers if one.status != 200]
    assert late
    for one in late:
        told = verdict.of_answer(one.status, one.headers.get("x-penstock-refused", "").encode(), one.body)
        assert isinstance(told.error, DeadlineInQueue | DeadlineExceeded)
        assert told.error.reason == TENANT_QUEUE


async def test_a_deadline_that_passes_while_a_batch_is_computed_says_so() -> None:
    """It was told as waited for, never run and fit to be sent again, and nobody paid for the batch."""
    held = Held(model())
    async with running(held) as engine:
        try:
            answer = await engine.post(Api.CLASSIFY, {"input": "a b"}, time_s=1.0)
        finally:
            held.may.set()
        (meter,) = engine.meters
    told = verdict.of_answer(answer.status, answer.headers.get("x-penstock-refused", "").encode(), answer.body)
    assert (answer.status, type(told.error), told.retry) == (504, DeadlineExceeded, False)
    assert meter.used.prompt_tokens == 3


class Held(Toy):
    """Computes nothing before it may."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.may = threading.Event()

    def forward(self, batch: Features) -> Features:
        self.may.wait()
        return super().forward(batch)
