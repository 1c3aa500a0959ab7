"""Whether an engine's error spends the error budget: never by the doing of one caller, at once in an outage."""

from dataclasses import replace

import pytest

from penstock.domain.errors import EngineError, LosesWorkers, WorkerLost
from penstock.domain.outcome import Outcome
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.calls.doubt import Doubt
from penstock.gateway.dispatch.blame import Blame
from penstock.gateway.dispatch.charges import Origin
from penstock.gateway.dispatch.records import FailureEvidence, ProbeResult
from penstock.gateway.records.requests import RequestLedger
from penstock.telemetry import names
from tests.support.engines.stub import Behaviour
from tests.support.engines.wire import Mode
from tests.support.gateways.breakers import Room, all_pass, origin, version
from tests.support.gateways.dispatch import Corridor, FakeReply, corridor, stream_request, unary_request, until
from tests.support.samples.calls import VERSION

WORKER = "t-a0"


@pytest.fixture(params=["error", "reset"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Return how an engine fails on a body: with an answer, or by breaking off."""
    found: Mode = request.param
    return found


async def _fails(way: Corridor, field: str = "") -> None:
    """Have a request fail at its engine, and count it as a gateway does."""
    asked = unary_request()
    if field:
        asked.body[field] = {}
    with pytest.raises((EngineError, WorkerLost, LosesWorkers)):
        await way.ask(asked, FakeReply())
    ledger = RequestLedger(way.metrics, way.clock.monotonic)
    assert way.call is not None
    ledger.record(way.call, Answer(outcome=Outcome.ENGINE_ERROR, usage=UNKNOWN))


async def test_a_body_that_only_its_caller_sends_spends_no_error_budget(mode: Mode) -> None:
    """A grammar of no words, a score that overflows: the engine fails on them, passes the probe; nothing is spent."""
    async with corridor() as way, way.probing():
        way.stubs[0].behaviour = Behaviour(mode=mode, if_field="structured_outputs")
        for n in range(1, 3):
            await _fails(way, "structured_outputs")
            await until(lambda n=n: way.counted(names.TIER_REQUESTS, outcome="bad_request") == n)  # type: ignore[misc]
        assert way.counted(names.TIER_REQUESTS, outcome="engine_error") == 0
        assert way.counted(names.REQUESTS, outcome="engine_error") == 0
        assert way.counted(names.REQUESTS, outcome="bad_request") == 2


async def test_an_engine_that_fails_whatever_it_is_asked_spends_the_budget_at_once(mode: Mode) -> None:
    """An outage counts from its first request on, with one tenant of one shape as with many."""
    async with corridor() as way, way.probing():
        way.stubs[0].behaviour = Behaviour(mode=mode)
        await _fails(way)
        await until(lambda: way.counted(names.TIER_REQUESTS, outcome="engine_error") == 1)
        assert way.counted(names.TIER_REQUESTS, outcome="bad_request") == 0


async def test_an_engine_that_fails_in_the_middle_of_a_stream_is_judged_alike() -> None:
    """Nobody goes on with an answer under a grammar: its engine is asked all the same."""
    async with corridor() as way, way.probing():
        way.stubs[0].behaviour = Behaviour(mode="error_after_token", if_field="structured_outputs")
        asked = stream_request()
        asked.body["structured_outputs"] = {}
        assert (await way.ask(asked, FakeReply())).outcome is Outcome.ENGINE_ERROR
        call: Call | None = way.call
        assert call is not None
        await until(lambda: call.is_own(Answer(outcome=Outcome.ENGINE_ERROR, usage=UNKNOWN)) is True)


async def test_what_is_refused_for_the_workers_that_it_lost_spends_no_budget() -> None:
    """Three workers were lost, which counted; to send the same body again costs a caller nothing, and us none."""
    async with corridor(4) as way:
        for stub in way.stubs:
            stub.behaviour = Behaviour(mode="reset")
        for error, is_own in ((WorkerLost, False), (LosesWorkers, False), (LosesWorkers, True)):
            with pytest.raises(error):
                await way.ask(unary_request(), FakeReply())
            assert way.call is not None
            assert way.call.is_own(Answer(outcome=Outcome.ENGINE_ERROR, usage=UNKNOWN)) is is_own


def _doubts(room: Room, *who: Origin, now: float = 0.0) -> list[Doubt]:
    found = []
    worker = room.of(WORKER)[0]
    for one in who:
        held = room.breakers.failed(worker, FailureEvidence.ANSWERED, one, now)
        found.append(room.breakers.doubt(worker, one, now, is_charged=not held))
    return found


@pytest.mark.parametrize(
    ("who", "is_own"),
    [
        ((origin("a", "x"), origin("a", "y"), origin("a", "z")), True),
        ((origin("a", "x"), origin("b", "y")), True),
        ((origin("a", "x"), origin("b", "x"), origin("c", "x")), True),
        ((origin("a", "x"), origin("b", "x"), origin("c", "y")), False),
    ],
)
def test_a_fault_that_the_probe_does_not_meet_is_ours_where_callers_enough_meet_it(
    who: tuple[Origin, ...], is_own: bool
) -> None:
    """Three tenants and two shapes are what no caller makes alone; fewer are acquitted by the probe."""
    room = Room(version({"a": 1}))
    doubts = _doubts(room, *who)
    assert [doubt.is_own for doubt in doubts] == [None] * len(who)
    room.probe(0.0)
    assert [doubt.is_own for doubt in doubts] == [is_own] * len(who)


def test_complaints_of_long_ago_are_no_evidence() -> None:
    """What three tenants met an hour apart is not one fault."""
    room = Room(version({"a": 1}))
    for at, tenant in ((0.0, "a"), (1000.0, "b"), (2000.0, "c")):
        [doubt] = _doubts(room, origin(tenant, tenant), now=at)
        room.probe(at)
        assert doubt.is_own


@pytest.mark.parametrize("finding", [ProbeResult.FAILED, ProbeResult.CLOSED, ProbeResult.BUSY])
def test_only_a_passed_probe_acquits(finding: ProbeResult) -> None:
    """A worker that does not answer counts against the platform, and so does one that nobody can tell of."""
    room = Room(version({"a": 1}))
    [doubt] = _doubts(room, origin())
    room.probe(0.0, lambda _: finding)
    assert doubt.is_own is False


def test_what_is_charged_is_told_at_once() -> None:
    """While a tenant's shape is known to fail nobody is asked again, and its failures are its own."""
    room = Room(version({"a": 1}))
    _doubts(room, origin())
    room.probe(0.0, all_pass)
    assert _doubts(room, origin(), now=1.0)[0].is_own
    assert _doubts(room, origin("shop"), now=1.0)[0].is_own is None


def test_a_worker_that_leaves_or_is_shut_settles_what_waits_for_it() -> None:
    """Nobody will ask it: its failures are the platform's, at once, and none waits for ever."""
    room = Room(version({"a": 1}))
    [gone] = _doubts(room, origin())
    room.breakers.learn([replace(VERSION, workers=())], 1.0)
    assert gone.is_own is False
    room = Room(version({"a": 1}))
    [shut] = _doubts(room, origin())
    room.fail(room.of(WORKER)[0], 0.1, FailureEvidence.CLOSED)
    assert shut.is_own is False
    assert _doubts(room, origin(), now=0.2)[0].is_own is False


def test_as_many_as_are_remembered_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the bound is ours at once; whoever complained longest ago is forgotten."""
    monkeypatch.setattr("penstock.gateway.dispatch.blame.MOST_DOUBTS", 1)
    monkeypatch.setattr("penstock.gateway.dispatch.blame.MOST_TENANTS", 2)
    blame = Blame()
    first, second = Doubt(), Doubt()
    blame.wait("w", VERSION.id, first)  # type: ignore[arg-type]
    blame.wait("w", VERSION.id, second)  # type: ignore[arg-type]
    assert (first.is_own, second.is_own) == (None, False)
    for tenant in "abc":
        blame.complained(VERSION.id, origin(tenant, tenant), 0.0)
    assert not blame.is_widespread(VERSION.id, 0.0)


def test_a_doubt_is_settled_once() -> None:
    """Who asks before is told then, who asks later at once; the first word counts."""
    told: list[bool] = []
    doubt = Doubt()
    doubt.then(told.append)
    assert told == []
    doubt.settle(is_own=True)
    doubt.settle(is_own=False)
    doubt.then(told.append)
    assert told == [True, True]
