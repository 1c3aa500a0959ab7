"""Bodies that workers are lost with: who is told to come back, and who is not tried again."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import LosesWorkers, NoCapacity, WorkerLost
from penstock.domain.ids import TenantId
from penstock.domain.outcome import Outcome
from penstock.gateway.dispatch.poison import MOST_EVER, MOST_LOST, Poison, is_enough
from penstock.gateway.listener.errors import row_of
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import Corridor, FakeReply, corridor, stream_request, unary_request
from tests.unit.gateway.dispatch.test_carry_on import StubReader

A, B = TenantId("a"), TenantId("b")
BODY, OTHER = b"digest", b"another"


def breaking(way: Corridor) -> None:
    """Let every worker break off."""
    for stub in way.stubs:
        stub.behaviour = Behaviour(mode="reset")


def asked(way: Corridor) -> list[int]:
    return [stub.stats.requests for stub in way.stubs]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_loses_two_workers_is_not_sent_to_a_third_and_may_come_back(stream: bool) -> None:
    """A request in flight when two workers were lost may be why, and may not: its caller hears when to retry."""
    async with corridor(4) as way:
        breaking(way)
        with pytest.raises(WorkerLost) as caught:
            await way.ask(stream_request() if stream else unary_request(), FakeReply())
        assert asked(way) == [1, 1, 0, 0]
        assert row_of(caught.value).retryable
        assert caught.value.retry_after_s == 1.0


async def test_the_same_body_gets_one_worker_and_then_none() -> None:
    """The third loss is final, and while it is remembered no engine is asked and the caller is told not to retry."""
    async with corridor(4) as way:
        breaking(way)
        with pytest.raises(WorkerLost):
            await way.ask(unary_request(), FakeReply())
        with pytest.raises(LosesWorkers):
            await way.ask(unary_request(), FakeReply())
        assert sum(asked(way)) == MOST_EVER
        with pytest.raises(LosesWorkers) as caught:
            await way.ask(unary_request(), FakeReply())
        assert sum(asked(way)) == MOST_EVER
        assert not row_of(caught.value).retryable
        assert caught.value.retry_after_s is None


async def test_who_comes_back_and_is_answered_is_under_no_suspicion() -> None:
    """An honest caller whose two workers were killed retries, is answered, and may lose two again."""
    async with corridor(4) as way:
        breaking(way)
        with pytest.raises(WorkerLost):
            await way.ask(unary_request(), FakeReply())
        for stub in way.stubs:
            stub.behaviour = Behaviour()
        assert (await way.ask(unary_request(), FakeReply())).outcome is Outcome.OK
        assert not way.poison


async def test_another_body_is_not_touched() -> None:
    """What is remembered is one body: the same tenant's next one is tried as ever."""
    async with corridor(4) as way:
        breaking(way)
        for error in (WorkerLost, LosesWorkers):
            with pytest.raises(error):
                await way.ask(unary_request(), FakeReply())
        for stub in way.stubs:
            stub.behaviour = Behaviour()
        assert (await way.ask(unary_request(tokens=6), FakeReply())).outcome is Outcome.OK
        with pytest.raises(LosesWorkers):
            await way.ask(unary_request(), FakeReply())


async def test_a_connection_that_was_refused_is_no_loss() -> None:
    """Where nothing was sent, nothing can have been killed by it: the caller hears that nobody is there, and when."""
    async with corridor(2) as way:
        for stub in way.stubs:
            await stub.stop()
        for _ in range(3):
            with pytest.raises(NoCapacity):
                await way.ask(unary_request(), FakeReply())
        assert not way.poison


async def test_a_fleet_of_one_is_protected_too() -> None:
    """Each try loses the only worker: after the third the body is not sent any more."""
    async with corridor(1) as way:
        way.max_attempts = 1
        breaking(way)
        for error in (WorkerLost, WorkerLost, LosesWorkers, LosesWorkers):
            with pytest.raises(error):
                await way.ask(unary_request(), FakeReply())
        assert asked(way) == [MOST_EVER]


async def test_who_comes_back_at_once_and_meets_a_dead_worker_again_is_not_to_blame() -> None:
    """The worker that broke off a moment ago and was not asked since kills no body a second time."""
    async with corridor(2) as way:
        breaking(way)
        way.prober()
        for _ in range(3):
            with pytest.raises(WorkerLost):
                await way.ask(unary_request(), FakeReply())
        assert sum(asked(way)) > MOST_EVER


async def test_a_stream_that_loses_both_its_workers_ends_broken_and_is_remembered() -> None:
    """Tokens were delivered, so nobody is told to send it again; its losses count all the same."""
    async with corridor(2) as way:
        way.reader = StubReader()
        way.stubs[0].behaviour = Behaviour(mode="die_after_token", after_tokens=3)
        way.stubs[1].behaviour = Behaviour(mode="reset")
        reply = FakeReply()
        answer = await way.ask(stream_request(20), reply)
        assert answer.outcome is Outcome.BROKEN_STREAM
        assert b'"code":"stream_broken"' in reply.writes[-1]
        assert way.call is not None
        who, binding = way.call.principal.tenant, way.call.attempts.binding
        assert way.poison.losses(who, binding, way.clock.monotonic()) == MOST_LOST


def test_it_is_forgotten_after_some_minutes() -> None:
    """Nobody is refused for good, and what has lapsed costs nothing any more."""
    poison = Poison()
    poison.lost(A, BODY, 3, 0.0)
    assert (poison.losses(A, BODY, 179.0), poison.losses(A, BODY, 180.0)) == (3, 0)
    assert not poison


def test_requests_under_way_together_lose_a_worker_once() -> None:
    """A thousand equal requests that one dead worker held are one loss of their body."""
    poison = Poison()
    for _ in range(1000):
        poison.lost(A, BODY, 1, 0.0)
    assert poison.losses(A, BODY, 1.0) == 1


def test_tenants_do_not_know_of_each_other() -> None:
    """The same body of another tenant is another one."""
    poison = Poison()
    poison.lost(A, BODY, 3, 0.0)
    assert (poison.losses(B, BODY, 1.0), poison.losses(A, OTHER, 1.0)) == (0, 0)
    poison.answered(B, BODY)
    poison.answered(A, OTHER)
    assert poison.losses(A, BODY, 1.0) == 3


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=200))
def test_memory_is_bounded_and_the_latest_stay(losses: list[tuple[int, int]]) -> None:
    """However many bodies and tenants lose workers, so many are known at most, the last one among them."""
    poison = Poison()
    with patch.multiple("penstock.gateway.dispatch.poison", MOST_BODIES=3, MOST_TENANTS=2):
        for tenant, body in losses:
            poison.lost(TenantId(str(tenant)), b"%d" % body, 1, 0.0)
            assert poison.losses(TenantId(str(tenant)), b"%d" % body, 1.0) == 1
    known = [sum(poison.losses(TenantId(str(t)), b"%d" % b, 1.0) for b in range(10)) for t in range(10)]
    assert max(known) <= 3
    assert sum(map(bool, known)) <= 2


@given(st.integers(0, MOST_EVER - 1))
def test_no_body_loses_more_than_the_most(before: int) -> None:
    """Whatever was lost before, a request ends with a loss that keeps the sum within the bound."""
    lost = next(n for n in range(1, MOST_EVER + 1) if is_enough(before + n, n))
    assert before + lost <= MOST_EVER
    assert lost <= MOST_LOST
    assert not is_enough(before, 0)
