import asyncio
import threading
import time
from dataclasses import replace

import pytest

from penstock.domain.errors import (
    AnswerUnformed,
    DeadlineExceeded,
    DeadlineInQueue,
    Draining,
    EngineError,
    EngineRefused,
    Evicted,
    LastWorkerLost,
    NoCapacity,
    Overloaded,
    Rejected,
    UnsupportedByModel,
    WorkerLost,
)
from penstock.domain.ids import WorkerId
from penstock.domain.outcome import TENANT_QUEUE, Outcome, Stage
from penstock.domain.serving.report import Batched, Load, Trigger
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import binding_of, unseal
from penstock.gateway.dispatch import dispatcher, verdict
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.listener.errors import row_of
from tests.support.engines.stub import Behaviour, Mode
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, ticket_key, unary_request, until
from tests.support.samples.calls import VERSION, principal


async def test_wire_carries_what_the_gate_needs() -> None:
    """The worker gets the served name, the tenant's salt, forced usage, the ticket and the ids."""
    async with corridor() as way:
        await way.ask(stream_request(), FakeReply())
        stats = way.stubs[0].stats
    assert stats.last_body["model"] == "toy@0123456789ab"
    assert stats.last_body["cache_salt"] == "salt"
    assert stats.last_body["stream_options"] == {"include_usage": True}
    assert stats.last_headers["x-request-id"] == "req-1"
    presented = unseal(stats.last_headers["x-penstock-ticket"], ticket_key(WorkerId("w0")), time.time())
    assert presented.binding == binding_of("/v1/chat/completions", stats.last_raw)
    ticket = presented.ticket
    assert (ticket.request, ticket.tenant, ticket.prompt_tokens) == ("req-1", "acme", 7)


async def test_caller_body_is_not_changed() -> None:
    """What the caller sent stays as it is: only a copy goes to the worker."""
    request = stream_request()
    before = {**request.body}
    async with corridor() as way:
        await way.ask(request, FakeReply())
    assert request.body == before


LOAD = {"running": 3, "waiting": 2, "queued_tokens": 640, "kv_used_ratio": 0.25}


async def test_load_is_heard_from_every_answer() -> None:
    """The gate's load reaches the book, whatever the status."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(load=LOAD)
        await way.ask(unary_request(), FakeReply())
    assert way.book.heard_ == [("w0", Load(running=3, waiting=2, queued_tokens=640, kv_used_ratio=0.25))]
    assert way.book.dispatched_ == [("w0", 23)]


async def test_what_a_worker_tells_of_its_batch_is_kept_with_the_attempt() -> None:
    """It is in the record of the request, for whoever explains it; a worker that tells nothing leaves it empty."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(report={"batched": {"size": 4, "trigger": "size", "waited_s": 0.0025}})
        await way.ask(unary_request(), FakeReply())
        assert way.call is not None
        assert [one.batch for one in way.call.attempts.trail] == [
            Batched(size=4, trigger=Trigger.SIZE, waited_s=0.0025)
        ]
        way.stubs[0].behaviour = Behaviour()
        await way.ask(unary_request(), FakeReply())
        assert [one.batch for one in way.call.attempts.trail] == [None]


async def test_the_wait_at_the_door_of_who_is_refused_there_is_a_stage() -> None:
    """What a refused request waited was accounted nowhere; who is refused at once has waited nowhere."""
    async with corridor() as way:
        way.max_attempts = 1
        way.stubs[0].behaviour = Behaviour(mode="refuse", report={"waited": {"waited_s": 2.5}})
        with pytest.raises(Rejected):
            await way.ask(unary_request(), FakeReply())
        assert way.call is not None
        assert way.call.timings.seconds[Stage.QUEUE] == 2.5
        way.stubs[0].behaviour = Behaviour(mode="refuse", report={"waited": {"waited_s": 0.0}})
        with pytest.raises(Rejected):
            await way.ask(unary_request(), FakeReply())
        assert Stage.QUEUE not in way.call.timings.seconds


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["reset", "die_before_token", "refuse", "error"])
async def test_another_worker_answers_before_the_first_token(mode: Mode, stream: bool) -> None:
    """Until a token was delivered a failure is invisible: another worker answers."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode=mode)
        reply = FakeReply()
        answer = await way.ask(stream_request() if stream else unary_request(), reply)
        assert (answer.outcome, reply.status, way.picked) == (Outcome.OK, 200, [0, 1])
        assert way.call is not None
        assert way.call.attempts.count == 2
        assert way.call.attempts.worker is not None
        assert way.call.attempts.worker.id == "w1"
        assert reply.body.count(b"data: [DONE]") == int(stream)


async def test_unreachable_worker_is_passed_over() -> None:
    """A worker that refuses connections costs one attempt and is ejected at once."""
    async with corridor(2) as way:
        await way.stubs[0].stop()
        reply = FakeReply()
        assert (await way.ask(unary_request(), reply)).outcome is Outcome.OK
        assert way.picked == [0, 1]
        assert way.breakers.ejected(["w0", "w1"], time.monotonic()) == {"w0"}  # type: ignore[list-item]


async def test_error_as_first_event_becomes_a_status() -> None:
    """An error in band before any token is answered with a status of its own, not as an event."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="error_in_stream")
        reply = FakeReply()
        with pytest.raises(EngineRefused, match="stub"):
            await way.ask(stream_request(), reply)
        assert not reply.started
        assert way.picked == [0]


async def test_no_retry_after_the_first_token() -> None:
    """After a token the answer belongs to its worker: the stream ends broken, nobody else is asked."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="die_after_token", after_tokens=3)
        reply = FakeReply()
        answer = await way.ask(stream_request(), reply)
        assert answer.outcome is Outcome.BROKEN_STREAM
        assert way.picked == [0]
        assert b'"code":"stream_broken"' in reply.writes[-1]
        assert b"[DONE]" not in reply.body


@pytest.mark.parametrize(
    ("status", "error", "attempts"),
    [
        (400, EngineRefused, 1),
        (422, EngineRefused, 1),
        (404, UnsupportedByModel, 1),
        (500, EngineError, 2),
        (504, DeadlineExceeded, 1),
    ],
)
async def test_engine_errors_become_ours(status: int, error: type[Exception], attempts: int) -> None:
    """A 4xx goes back with the engine's message; a 5xx is tried elsewhere first."""
    async with corridor(2) as way:
        way.max_attempts = 2
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="error", status=status)
        with pytest.raises(error) as caught:
            await way.ask(unary_request(), FakeReply())
        assert len(way.picked) == attempts
        if error is EngineRefused:
            assert str(caught.value) == f"stub says {status}"
            assert caught.value.param == "messages"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("reason", "error", "attempts"),
    [
        ("draining", Draining, 3),
        ("overloaded", Overloaded, 3),
        ("late", DeadlineInQueue, 1),
        ("ticket", EngineError, 1),
    ],
)
async def test_gate_refusals(reason: str, error: type[Exception], attempts: int) -> None:
    """The gate's word decides whether asking another worker makes sense."""
    async with corridor(2) as way:
        way.max_attempts = 3
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="refuse", reason=reason)
        with pytest.raises(error):
            await way.ask(unary_request(), FakeReply())
        assert sum(stub.stats.requests for stub in way.stubs) == attempts


@pytest.mark.parametrize("reason", ["overloaded", "late"])
async def test_a_tenants_own_full_queue_is_asked_once_and_remembered(reason: str) -> None:
    """Each worker once, whatever it told to wait: to ask again is what fills the queue."""
    async with corridor(2) as way:
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="refuse", reason=reason, wait_s=0.2, why=TENANT_QUEUE)
        with pytest.raises(Rejected) as refused:
            await way.ask(unary_request(), FakeReply())
        assert (refused.value.reason, refused.value.retry_after_s) == (TENANT_QUEUE, 0.2)
        assert [stub.stats.requests for stub in way.stubs] == [1, 1]
        assert way.book.turned_away_ == [(WorkerId(one), VERSION.id, 0.2) for one in ("w0", "w1")]
        assert {demand.tenant for demand in way.book.refused_} == {principal().tenant}


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("made", [0, 49])
async def test_an_answer_that_the_engine_could_not_form_is_its_own_fault(status: int, made: int) -> None:
    """A 400 after tokens were made is no refusal of the request: a 502, asked once, and no word on the worker."""
    used = {"prompt_tokens": 34, "output_tokens": made, "cached_tokens": 0, "sequences": 1, "prompts": 1}
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="error", status=status, report={"used": used})
        with pytest.raises(AnswerUnformed if made else EngineRefused) as caught:
            await way.ask(unary_request(), FakeReply())
        assert row_of(caught.value).status == (502 if made else 400)
        assert [stub.stats.requests for stub in way.stubs] == [1, 0]
        assert not way.breakers.known()


async def test_a_worker_without_the_adapter_is_remembered_and_another_one_answers() -> None:
    """Nothing stands on that worker's record; where all refuse, the caller hears of the wait."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="refuse", reason="adapter")
        assert (await way.ask(unary_request(), FakeReply())).outcome is Outcome.OK
        assert (way.picked, way.book.turned_away_) == ([0, 1], [(WorkerId("w0"), VERSION.id, verdict.WITHOUT_S)])
        assert not way.breakers.known()
        way.stubs[1].behaviour = Behaviour(mode="refuse", reason="adapter")
        with pytest.raises(NoCapacity) as refused:
            await way.ask(unary_request(), FakeReply())
        assert refused.value.retry_after_s == verdict.WITHOUT_S
        assert [stub.stats.requests for stub in way.stubs] == [2, 2]


async def test_asks_again_after_everybody_was_tried() -> None:
    """With no worker left untried it waits a little and asks again."""
    async with corridor(1) as way:
        way.stubs[0].behaviour = Behaviour(mode="refuse", reason="overloaded", times=2)
        assert (await way.ask(unary_request(), FakeReply())).outcome is Outcome.OK
        assert way.picked == [0, 0, 0]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("reason", ["overloaded", "evicted", "late"])
async def test_a_door_is_asked_once_for_one_refusal(workers: int, reason: str) -> None:
    """Who is told how long to wait is not sent to that door again before, and hears of the one that opens first."""
    async with corridor(workers) as way:
        for later_s, stub in enumerate(way.stubs):
            stub.behaviour = Behaviour(mode="refuse", reason=reason, wait_s=7.0 + later_s)
        with pytest.raises((Rejected, Evicted)) as caught:
            await way.ask(unary_request(), FakeReply())
        assert caught.value.retry_after_s == 7.0
        assert [stub.stats.requests for stub in way.stubs] == [1] * workers


async def test_a_door_is_asked_again_when_its_wait_has_passed() -> None:
    """A short wait is spent here, and where one of several doors opens sooner that one is asked."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="refuse", reason="overloaded", wait_s=30.0)
        way.stubs[1].behaviour = Behaviour(mode="refuse", reason="overloaded", wait_s=0.3, times=1)
        began = time.monotonic()
        assert (await way.ask(unary_request(), FakeReply())).outcome is Outcome.OK
        assert time.monotonic() - began >= 0.3
        assert way.picked == [0, 1, 1]


async def test_who_loses_the_only_worker_hears_that_nobody_serves() -> None:
    """Where another worker would be tried and there is none it is a 503 with a wait, and says that it was lost."""
    async with corridor(1) as way:
        way.stubs[0].behaviour, way.most_picks = Behaviour(mode="reset"), 1
        with pytest.raises(LastWorkerLost) as caught:
            await way.ask(unary_request(), FakeReply())
    assert (row_of(caught.value).status, row_of(caught.value).retryable) == (503, True)
    assert (caught.value.code, caught.value.outcome) == ("worker_lost", Outcome.ENGINE_ERROR)
    assert caught.value.retry_after_s == 1.0


async def test_retry_budget_bounds_retries() -> None:
    """With the budget spent the first failure is the answer."""
    async with corridor(2) as way:
        way.budget = RetryBudget(ratio=0.0, capacity=0.5, floor_per_s=0.0)
        way.stubs[0].behaviour = Behaviour(mode="reset")
        with pytest.raises(WorkerLost):
            await way.ask(unary_request(), FakeReply())
        assert [stub.stats.requests for stub in way.stubs] == [1, 0]


async def test_nobody_ready_is_told_as_it_is() -> None:
    """Without any worker the router's own refusal, with its wait, is the answer."""
    async with corridor(0) as way:
        with pytest.raises(NoCapacity) as caught:
            await way.ask(unary_request(), FakeReply())
        assert caught.value.retry_after_s == 1.0


async def test_a_refusal_always_says_how_long_to_wait() -> None:
    """Where no worker can be reached, nobody but the router knows a wait, and it is told."""
    async with corridor(2) as way:
        for stub in way.stubs:
            await stub.stop()
        with pytest.raises(NoCapacity) as caught:
            await way.ask(unary_request(), FakeReply())
        assert caught.value.retry_after_s == 1.0


async def test_late_work_is_dropped_before_dispatch() -> None:
    """Work past its deadline never reaches a worker."""
    async with corridor() as way:
        with pytest.raises(DeadlineInQueue):
            await way.ask(unary_request(), FakeReply(), deadline_s=0.0)
        assert way.picked == []


@pytest.mark.parametrize("stream", [False, True])
async def test_client_that_leaves_frees_the_engine(stream: bool) -> None:
    """A client that leaves while the engine works (or waits) takes its request with it at once."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(delay_ms=5_000)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(stream_request() if stream else unary_request(), reply))
        await until(lambda: way.stubs[0].stats.running == 1)
        reply.leave()
        answer = await task
        await until(lambda: way.stubs[0].stats.running == 0)
        assert answer.outcome is Outcome.CANCELLED
        assert way.stubs[0].stats.aborted == 1


async def test_client_that_left_before_dispatch_starts_nothing_lasting() -> None:
    """A client that left before its request was sent leaves nothing running."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(delay_ms=5_000)
        reply = FakeReply(gone=True)
        answer = await way.ask(unary_request(), reply)
        await asyncio.sleep(0.05)
        assert answer.outcome is Outcome.CANCELLED
        assert way.stubs[0].stats.running == 0


async def test_cancellation_frees_the_engine() -> None:
    """A cancelled task closes the worker's connection."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(delay_ms=5_000)
        task = asyncio.create_task(way.ask(unary_request(), FakeReply()))
        await until(lambda: way.stubs[0].stats.running == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: way.stubs[0].stats.running == 0)


async def test_stages_are_timed() -> None:
    """Route, prefill and decode each get their time."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(delay_ms=30, step_ms=10)
        await way.ask(stream_request(4), FakeReply())
        assert way.call is not None
        seconds = way.call.timings.seconds
        assert seconds[Stage.PREFILL] >= 0.025
        assert seconds[Stage.DECODE] >= 0.025
        assert Stage.ROUTE in seconds


async def test_every_api_has_its_path() -> None:
    """The path to the worker is the API's own."""
    async with corridor() as way:
        for api in Api:
            if api not in {Api.RESPONSES, Api.MESSAGES}:
                answer = await way.ask(unary_request(api=api), FakeReply())
                assert answer.outcome is Outcome.OK


@pytest.mark.parametrize(("size", "is_here"), [(1_000, True), (1 << 20, False)])
async def test_a_large_body_is_hashed_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, *, is_here: bool
) -> None:
    """Binding a ticket to its body took the loop 1 to 6 ms a mebibyte; a thread's hashing leaves it alone."""
    threads: list[int] = []

    def noted(path: str, body: bytes) -> bytes:
        threads.append(threading.get_ident())
        return binding_of(path, body)

    monkeypatch.setattr(dispatcher, "binding_of", noted)
    async with corridor() as way:
        messages = [{"role": "user", "content": "x" * size}]
        answer = await way.ask(replace(unary_request(), body={"messages": messages, "max_tokens": 2}), FakeReply())
    assert answer.outcome is Outcome.OK
    assert (threads == [threading.get_ident()]) is is_here
