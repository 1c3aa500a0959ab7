"""The second half of the request corridor with real parts: dispatcher, relays and HTTP client against stub engines."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from penstock.connectors.http.client import HttpClient, PoolLimits
from penstock.domain.clock import SystemClock
from penstock.domain.errors import ClientGone, NoCapacity, PenstockError
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import RequestId, VersionId, WorkerId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.keys import worker_secret
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Answer, Call, Timings
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.calls.inside import Asked
from penstock.gateway.calls.lease import Lease
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.poison import Poison
from penstock.gateway.dispatch.prober import Prober, ProberSettings
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.safety.confirming import Confirming
from penstock.gateway.streaming.continuity import TokenReader
from penstock.gateway.streaming.relays import RelaySettings, StreamingRelays, Wants
from penstock.telemetry.definitions import Metric
from penstock.telemetry.metrics import Metrics
from tests.support.engines.stub import StubEngine
from tests.support.patience import patient
from tests.support.samples.calls import DUE, VERSION, principal


async def _never(request: InferenceRequest, who: Principal) -> Asked:
    raise AssertionError(request.model, who.tenant)


UNASKED = Confirming(ask=_never, ids=str, clock=SystemClock(), tell=lambda *_: None, spawn=asyncio.ensure_future)
"""Models of safety rules that no test asks."""


def ticket_key(worker: WorkerId) -> bytes:
    """Return what tickets for a worker are sealed with."""
    return worker_secret(b"k" * 32, worker)


def render(error: PenstockError, request: RequestId, api: Api) -> bytes:
    return b'{"error":{"code":"%b","request_id":"%b"}}' % (error.code.encode(), request.encode())


@dataclass
class FakeReply:
    """A client: remembers what it was sent, can leave and stop reading."""

    started: bool = False
    gone: bool = False
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)
    written_at: list[float] = field(default_factory=list)
    finished: int = 0
    aborted: int = 0
    on_gone: Callable[[], None] = lambda: None
    on_pause: Callable[[], None] = lambda: None
    on_resume: Callable[[], None] = lambda: None

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        assert not self.started
        self.started, self.status, self.headers = True, status, dict(headers)

    def write(self, data: bytes) -> None:
        assert self.started
        assert not self.finished
        if not self.gone and data:
            self.writes.append(data)
            self.written_at.append(time.monotonic())

    def finish(self) -> None:
        self.finished += 1

    def abort(self) -> None:
        self.aborted += 1
        self.gone = True

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self.on_gone, self.on_pause, self.on_resume = on_gone, on_pause, on_resume

    def leave(self) -> None:
        self.gone = True
        self.on_gone()


@dataclass
class Book:
    heard_: list[tuple[WorkerId, Load]] = field(default_factory=list)
    dispatched_: list[tuple[WorkerId, int]] = field(default_factory=list)
    turned_away_: list[tuple[WorkerId, VersionId, float]] = field(default_factory=list)
    refused_: list[Demand] = field(default_factory=list)

    def heard(self, worker: WorkerId, load: Load) -> None:
        self.heard_.append((worker, load))

    def dispatched(self, worker: WorkerId, tokens: int) -> None:
        self.dispatched_.append((worker, tokens))

    def turned_away(self, worker: WorkerId, version: VersionId, for_s: float, refused: Demand = ANY) -> None:
        self.turned_away_.append((worker, version, for_s))
        self.refused_.append(refused)


@dataclass
class Corridor:
    stubs: list[StubEngine]
    client: HttpClient
    settings: RelaySettings = field(default_factory=RelaySettings)
    budget: RetryBudget = field(default_factory=lambda: RetryBudget(ratio=0.1))
    max_attempts: int = 4
    silence_s: float = 2.0
    book: Book = field(default_factory=Book)
    metrics: Metrics = field(default_factory=Metrics)
    clock: SystemClock = field(default_factory=SystemClock)
    breakers: Breakers = field(default_factory=lambda: Breakers(random.Random(1)))
    poison: Poison = field(default_factory=Poison)
    upload_s: float = 0.0
    """What the caller took to send each body."""
    reader: TokenReader | None = None
    picked: list[int] = field(default_factory=list)
    most_picks: int = 1_000
    """After so many the router has nobody left: the version is shut."""
    call: Call | None = None
    lease: Lease | None = None

    @property
    def workers(self) -> tuple[WorkerEntry, ...]:
        """The stubs as a table has them."""
        return tuple(
            WorkerEntry(id=WorkerId(f"w{index}"), url=stub.url, state=WorkerState.READY)
            for index, stub in enumerate(self.stubs)
        )

    @asynccontextmanager
    async def probing(
        self, *, timeout_s: float = 0.2, look_s: float = 0.5, used_every_s: float = 20.0
    ) -> AsyncIterator[Prober]:
        """Let the platform ask meanwhile, as a gateway does."""
        prober = self.prober(timeout_s=timeout_s, look_s=look_s, used_every_s=used_every_s)
        running = asyncio.create_task(prober.run())
        try:
            yield prober
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def prober(self, *, timeout_s: float = 0.2, look_s: float = 0.5, used_every_s: float = 20.0) -> Prober:
        """Return what asks the stubs, which the breakers know from here on."""
        self.breakers.learn([replace(VERSION, workers=self.workers)], self.clock.monotonic())
        settings = ProberSettings(ticket_key=ticket_key, timeout_s=timeout_s, look_s=look_s, used_every_s=used_every_s)
        return Prober(
            workers=self.client, breakers=self.breakers, settings=settings, clock=self.clock, metrics=self.metrics
        )

    def counted(self, metric: Metric, **labels: str) -> float:
        """Return one of the gateway's numbers, summed over the labels that are not named."""
        lines = self.metrics.exposition().decode().splitlines()
        mine = [line for line in lines if line.startswith(f"{metric.name}_total")]
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        return sum(float(line.rpartition(" ")[2]) for line in mine if all(label in line for label in wanted))

    def pick(self, tried: frozenset[WorkerId]) -> WorkerEntry:
        for index, stub in enumerate(self.stubs if len(self.picked) < self.most_picks else ()):
            worker = WorkerId(f"w{index}")
            if worker not in tried:
                self.picked.append(index)
                return WorkerEntry(id=worker, url=stub.url, state=WorkerState.READY)
        raise NoCapacity(retry_after_s=1.0)

    async def ask(self, request: InferenceRequest, reply: FakeReply, *, deadline_s: float = 10.0) -> Answer:
        """Run one request as the pipeline does."""
        now = self.clock.monotonic()
        who = principal()
        came = Call(request=request, principal=who, timings=Timings(self.clock.monotonic, now))
        lease = Lease(opened_at=now, deadline_at=now + deadline_s)
        call = came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, lease)
        call.timings.put(Stage.UPLOAD, self.upload_s)
        self.call = call
        self.lease = lease
        ticket = Ticket(
            request=request.id,
            tenant=who.tenant,
            standing=Standing.PAID,
            weight=1,
            deadline_at=self.clock.now() + deadline_s,
            prompt_tokens=7,
            expected_output_tokens=16,
        )
        relay = StreamingRelays(
            clock=self.clock,
            render_error=render,
            settings=self.settings,
            metrics=self.metrics,
            reader=self.reader,
            wants=Wants(json=lambda _: True),
        ).open(call, reply)
        dispatcher = self._dispatcher()
        try:
            await dispatcher.run(call, ticket, relay, self.pick)
            while (rest := await relay.rest()) is not None:
                await dispatcher.carry_on(call, ticket, rest, relay, self.pick)
        except PenstockError as error:
            answer = relay.fail(error)
            if not reply.started and not isinstance(error, ClientGone):
                raise
        else:
            answer = await relay.answer()
        if answer.outcome is Outcome.ENGINE_ERROR and call.attempts.doubt is None:
            dispatcher.failed(call)
        return answer

    def _dispatcher(self) -> WorkerDispatcher:
        return WorkerDispatcher(
            workers=self.client,
            loads=self.book,
            breakers=self.breakers,
            budget=self.budget,
            settings=DispatchSettings(ticket_key=ticket_key, max_attempts=self.max_attempts, silence_s=self.silence_s),
            clock=self.clock,
            chance=random.Random(2),
            metrics=self.metrics,
            poison=self.poison,
        )


@asynccontextmanager
async def corridor(workers: int = 1) -> AsyncIterator[Corridor]:
    """Yield a corridor to this number of stub engines."""
    stubs = [StubEngine(worker=f"w{index}") for index in range(workers)]
    for stub in stubs:
        await stub.start()
    client = HttpClient(clock=time.monotonic, limits=PoolLimits(connect_timeout_s=0.5))
    try:
        yield Corridor(stubs, client)
    finally:
        await client.close()
        for stub in stubs:
            await stub.stop()


def stream_request(tokens: int = 5, *, include_usage: bool = False, api: Api = Api.CHAT) -> InferenceRequest:
    """Return a streamed request that arrived now."""
    return _request(api, {"max_tokens": tokens, "stream": True}, stream=True, include_usage=include_usage)


def unary_request(tokens: int = 5, api: Api = Api.CHAT) -> InferenceRequest:
    """Return a unary request that arrived now."""
    return _request(api, {"max_tokens": tokens}, stream=False, include_usage=False)


def _request(api: Api, body: dict[str, object], *, stream: bool, include_usage: bool) -> InferenceRequest:
    if include_usage:
        body["stream_options"] = {"include_usage": True}
    return InferenceRequest(
        id=RequestId("req-1"),
        api=api,
        model="toy",
        body={"model": "toy", "messages": [{"role": "user", "content": "hi"}], **body},
        stream=stream,
        include_usage=include_usage,
        cost=Cost(output_tokens=16),
        arrived_at=time.monotonic(),
    )


async def until(condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
    async with asyncio.timeout(patient(within_s)):
        while not condition():  # noqa: ASYNC110  what it looks at has no events
            await asyncio.sleep(0.002)
