"""One worker in virtual time: traffic meets the real queue in front of an engine model.

The queue gets the gate's reports at the times at which the gate would send them: first tokens, then tokens in batches.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from loadtests.simulator.engine import EngineModel, Sequence, SimulatedStep
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.work import Work, cost
from penstock.worker.gate.queueing.yielding import PROMISED
from penstock.worker.meter import REPORT_EVERY

LEAST_STEP_S = 1e-6
"""The resolution of virtual time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Time, cost, true answer lengths; ``then`` gives the caller's next request."""

    at: float
    work: Work
    output_tokens: int
    then: Callable[[float], "Arrival | None"] | None = None
    """Returns the caller's next request for the second at which this one ended, however it ended."""

    @property
    def cost(self) -> float:
        return cost(self.work.prompt_tokens, self.work.sequences * self.output_tokens)


@dataclass(slots=True)
class TenantRecord:
    """``service`` is all work done for it, ``good`` the part completed in time."""

    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    service: float = 0.0
    good: float = 0.0
    asked: int = 0
    in_time: int = 0
    shed: Counter[Shed] = field(default_factory=Counter)

    def ttft_quantile(self, q: float) -> float:
        """Return a quantile of the time to first token; infinite if nothing was served."""
        ordered = sorted(self.ttft_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    at: float
    work: Work
    why: Shed
    told_s: float


@dataclass(slots=True)
class _Here:
    arrival: Arrival
    told: int = 0
    runs: bool = False


def run(
    arrivals: Iterable[Arrival], queue: AdmissionQueue, engine: EngineModel, until: float
) -> dict[TenantId, TenantRecord]:
    worker = Worker(queue, engine)
    for arrival in arrivals:
        worker.expect(arrival)
    worker.run(until)
    return worker.records


class Worker:
    def __init__(self, queue: AdmissionQueue, engine: EngineModel) -> None:
        self.now = 0.0
        self.records: dict[TenantId, TenantRecord] = defaultdict(TenantRecord)
        self.promise = NO_PROMISE
        """Of requests that batch work yields to."""
        self.refused: list[RefusedRequest] = []
        self._queue, self._engine = queue, engine
        queue.look_later = lambda seconds: self._at(self.now + seconds, lambda: queue.look(self.now))
        self._here: dict[RequestId, _Here] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._news: SimulatedStep | None = None

    def _promise(self, work: Work) -> TimedPromise:
        return self.promise if work.standing >= PROMISED else NO_PROMISE

    def expect(self, arrival: Arrival) -> None:
        self._at(arrival.at, partial(self.arrive, arrival))

    def run(self, until: float) -> None:
        while self.now < until and (self._timers or self._engine.busy or self._news):
            if self._engine.busy:
                self.step()
            elif self._news is not None:
                self._hear()
            else:
                self._ring(max(self.now, self._timers[0][0]))

    def arrive(self, arrival: Arrival) -> None:
        work = arrival.work
        self.records[work.tenant].asked += 1
        self._here[work.request] = _Here(arrival)
        if work.deadline_at:
            self._at(work.deadline_at, partial(self._give_up, work.request))
        if work.start_by:
            self._at(work.start_by, partial(self._time_out, arrival))
        self._queue.arrive(work, self.now, partial(self._admit, arrival), partial(self._reject, arrival))

    def step(self) -> None:
        """Run an engine step; meanwhile the queue receives the last step's reports, and requests arrive."""
        decoding = [one.work for one in self._engine.decoding]
        step = self._engine.step()
        self._hear()
        end = self.now + step.seconds
        self._ring(end)
        self.now, self._news = end, step
        for work in decoding:
            self.records[work.tenant].itl_s.append(step.seconds)
            self._queue.stepped(self._promise(work), step.seconds, self.now)

    def _hear(self) -> None:
        news, self._news = self._news, None
        if news is None:
            return
        for sequence in news.first:
            self._first(sequence)
        for sequence in news.told:
            self._tell(sequence, REPORT_EVERY * sequence.width)
        for sequence in news.done:
            self._complete(sequence)

    def _at(self, at: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (max(at, self.now + LEAST_STEP_S), next(self._numbers), what))

    def _ring(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            at, _, what = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            what()

    def _admit(self, arrival: Arrival) -> None:
        work = arrival.work
        self._here[work.request].runs = True
        self._engine.enter(work, arrival.output_tokens)

    def _reject(self, arrival: Arrival, why: Shed, wait_s: float) -> None:
        work = arrival.work
        self.records[work.tenant].shed[why] += 1
        self.refused.append(RefusedRequest(at=self.now, work=work, why=why, told_s=wait_s))
        del self._here[work.request]
        self._ask_again(arrival)

    def _time_out(self, arrival: Arrival) -> None:
        here = self._here.get(arrival.work.request)
        if here is not None and not here.runs:
            self._reject(arrival, Shed.FULL, self._queue.give_up(arrival.work.request, self.now))

    def _give_up(self, request: RequestId) -> None:
        here = self._here.pop(request, None)
        if here is not None:
            self._engine.abort(request)
            self._queue.leave(request, self.now)
            self._ask_again(here.arrival)

    def _first(self, sequence: Sequence) -> None:
        here = self._here.get(sequence.work.request)
        if here is None:
            return
        record = self.records[sequence.work.tenant]
        took_s = self.now - here.arrival.at
        record.ttft_s.append(took_s)
        self._queue.first_token(self._promise(sequence.work), took_s, self.now)
        record.service += cost(sequence.work.prompt_tokens, 0)
        self._tell(sequence, sequence.width)

    def _tell(self, sequence: Sequence, tokens: int) -> None:
        here, work = self._here.get(sequence.work.request), sequence.work
        if here is None:
            return
        self.records[work.tenant].service += cost(0, tokens)
        here.told += tokens
        self._queue.progressed(work.request, tokens, self.now)

    def _complete(self, sequence: Sequence) -> None:
        here, work = self._here.pop(sequence.work.request, None), sequence.work
        if here is None:
            return
        record, made = self.records[work.tenant], sequence.output_tokens * sequence.width
        rest = made - here.told
        record.service += cost(0, rest)
        record.in_time += 1
        record.good += here.arrival.cost
        if rest:
            self._queue.progressed(work.request, rest, self.now)
        self._queue.leave(work.request, self.now)
        self._ask_again(here.arrival)

    def _ask_again(self, arrival: Arrival) -> None:
        again = arrival.then(self.now) if arrival.then is not None else None
        if again is not None:
            self.expect(again)
