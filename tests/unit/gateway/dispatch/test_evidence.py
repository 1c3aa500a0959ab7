"""What failed requests say of workers, and what of themselves: dispatcher, client, prober and stub engines."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.errors import DeadlineExceeded, EngineError, EngineRefused
from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import InferenceRequest
from penstock.telemetry import names
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, unary_request, until


async def test_frozen_worker_ends_with_the_deadline_and_is_found_by_the_platform() -> None:
    """A worker that never answers is given up at the deadline; one such request and the platform's probe eject it."""
    async with corridor(2) as way, way.probing(timeout_s=0.05):
        way.silence_s = 0.01
        way.stubs[0].behaviour = Behaviour(mode="freeze")
        with pytest.raises(DeadlineExceeded):
            await way.ask(unary_request(), FakeReply(), deadline_s=0.05)
        await until(lambda: way.breakers.ejected(["w0", "w1"], time.monotonic()) == {"w0"})  # type: ignore[list-item]
        await until(lambda: way.stubs[0].stats.running == 0)


async def test_a_caller_in_a_great_hurry_blames_nobody() -> None:
    """A deadline that no worker could have kept says nothing of the worker."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="freeze")
        for _ in range(3):
            with pytest.raises(DeadlineExceeded):
                await way.ask(unary_request(), FakeReply(), deadline_s=0.05)
        assert not way.breakers.known()


async def test_a_deadline_that_the_caller_chose_blames_nobody() -> None:
    """Finding 2: whoever gives a frozen or a full worker less time than it needs raises no suspicion by that."""
    async with corridor(2) as way:
        way.silence_s = 0.01
        way.stubs[0].behaviour = Behaviour(mode="freeze")
        with pytest.raises(DeadlineExceeded):
            await way.ask(replace(unary_request(), deadline_s=0.05), FakeReply(), deadline_s=0.05)
        assert not way.breakers.known()


async def test_a_deadline_of_the_platform_counts_where_the_caller_gave_more() -> None:
    """A frozen worker is not covered by callers who name a deadline beyond their plan's."""
    async with corridor(2) as way:
        way.silence_s = 0.01
        way.stubs[0].behaviour = Behaviour(mode="freeze")
        with pytest.raises(DeadlineExceeded):
            await way.ask(replace(unary_request(), deadline_s=60.0), FakeReply(), deadline_s=0.05)
        assert way.breakers.known() == {"w0"}


async def test_no_third_engine_is_asked_where_two_answered_with_an_error() -> None:
    """A second worker that says the same ends it: the error is the request's (finding 2)."""
    async with corridor(4) as way:
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="error")
        with pytest.raises(EngineError):
            await way.ask(unary_request(), FakeReply())
        assert way.picked == [0, 1]
        assert way.counted(names.RETRIES) == 1


async def test_an_engine_error_is_not_asked_for_twice_at_the_same_worker() -> None:
    """With nobody else to ask, the engine's error is the answer, at once and for nothing."""
    async with corridor(1) as way:
        way.stubs[0].behaviour = Behaviour(mode="error")
        with pytest.raises(EngineError):
            await way.ask(unary_request(), FakeReply())
        assert way.stubs[0].stats.requests == 1
        assert way.counted(names.RETRIES) == 0


async def test_a_whole_answer_to_a_stream_is_a_clear_error_and_no_blame() -> None:
    """An engine that does not stream this says so with a whole answer: 400, tried once, held against nobody."""
    async with corridor(2) as way:
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="whole")
        reply = FakeReply()
        with pytest.raises(EngineRefused) as caught:
            await way.ask(stream_request(), reply)
        assert caught.value.param == "stream"
        assert way.picked == [0]
        assert not reply.started
        assert not way.breakers.known()


async def test_an_empty_stream_is_a_suspicion_and_tried_elsewhere() -> None:
    """A complete stream without an event is an engine's error: another one is asked, the platform looks."""
    async with corridor(2) as way, way.probing():
        way.stubs[0].behaviour = Behaviour(mode="empty_stream", times=1)
        assert (await way.ask(stream_request(), FakeReply())).outcome is Outcome.OK
        await until(lambda: way.counted(names.PROBES, outcome="passed") == 1)
        assert not way.breakers.ejected(["w0", "w1"], time.monotonic())  # type: ignore[list-item]


async def test_finding_2_engine_errors_shut_no_worker_whose_probe_passes() -> None:
    """Errors without end for one field leave every worker in use: others' requests are answered by all of them."""
    async with corridor(2) as way, way.probing():
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="error", if_field="response_format")
        bad = unary_request()
        bad.body["response_format"] = {}
        for _ in range(20):
            with pytest.raises(EngineError):
                await way.ask(bad, FakeReply())
            assert (await way.ask(unary_request(), FakeReply())).outcome is Outcome.OK
        assert way.counted(names.PROBES, outcome="passed") >= 1
        assert not way.breakers.ejected(["w0", "w1"], time.monotonic())  # type: ignore[list-item]
        assert way.counted(names.SUSPICIONS, state="charged") > 0


async def test_a_departure_is_no_evidence() -> None:
    """Callers that leave, before and after the first token, are held against nobody."""
    async with corridor() as way:
        for delay_ms in (0, 5_000):
            way.stubs[0].behaviour = Behaviour(delay_ms=delay_ms, step_ms=20)
            reply = FakeReply()
            task = asyncio.create_task(way.ask(stream_request(100), reply))
            await until(lambda: way.stubs[0].stats.running == 1)
            reply.leave()
            await task
            await until(lambda: way.stubs[0].stats.running == 0)
        assert not way.breakers.known()


@pytest.mark.parametrize("request_of", [stream_request, unary_request])
async def test_a_call_knows_how_many_ran_at_its_worker(request_of: Callable[[], InferenceRequest]) -> None:
    """The gate tells it with the answer; of a worker that was lost nothing is left."""
    async with corridor(workers=2) as way:
        way.stubs[0].behaviour = Behaviour(mode="reset")
        way.stubs[1].behaviour = Behaviour(load={"running": 7})
        await way.ask(request_of(), FakeReply())
        assert way.call is not None
        assert way.call.attempts.report.load == Load(running=7)
